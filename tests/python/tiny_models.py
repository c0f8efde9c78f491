"""Tiny models of transformers with random weights, for test_transformers.py: how each family is made."""
import torch
import transformers

VOCABULARY = 61
# What most decoders call their sizes.
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24)
ENCODER = {name: SIZES[name] for name in SIZES if name != "num_key_value_heads"}
PAIR = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)

# Decoders by the name of their family: what differs from SIZES.
DECODERS = {
    "Llama": {},
    "Mistral": dict(sliding_window=5),
    "Mixtral": dict(sliding_window=6, num_local_experts=4),
    "Ministral": dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"], head_dim=8),
    "Qwen2": dict(use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "Qwen3": dict(head_dim=12),
    "Qwen2Moe": EXPERTS,
    "Qwen3Moe": dict(EXPERTS, head_dim=8),
    "Gemma": dict(head_dim=16),
    "Gemma2": dict(head_dim=12, sliding_window=5, attn_logit_softcapping=2.0, query_pre_attn_scalar=12),
    "Gemma3Text": dict(head_dim=8, sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "Phi": dict(partial_rotary_factor=0.5),
    "Phi3": dict(sliding_window=6),
    "GPTNeoX": dict(rotary_pct=0.25),
    "GPT2": dict(n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "OPT": dict(ffn_dim=48, word_embed_proj_dim=32),
    "StableLm": {},
    "Starcoder2": dict(sliding_window=5),
    "Olmo": {},
    "Olmo2": {},
    "Olmo3": dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "Cohere": {},
    "Cohere2": dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "Granite": dict(attention_multiplier=0.3),
    "Glm": dict(head_dim=8),
    "Glm4": dict(head_dim=8),
    "Helium": dict(head_dim=8),
    "Nemotron": dict(head_dim=8),
    "SmolLM3": dict(no_rope_layers=[1, 0]),
    "GptOss": dict(head_dim=8, sliding_window=5, num_local_experts=4, num_experts_per_tok=2,
                   layer_types=["sliding_attention", "full_attention"]),
    "Llama4Text": dict(head_dim=8, attention_chunk_size=5, num_local_experts=2, num_experts_per_tok=1,
                       intermediate_size_mlp=48, interleave_moe_layer_step=2, no_rope_layers=[1, 0],
                       layer_types=["chunked_attention", "full_attention"], attn_temperature_tuning=False),
    "DeepseekV3": dict(EXPERTS, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=10, qk_rope_head_dim=4,
                       qk_nope_head_dim=6, v_head_dim=8, n_routed_experts=4, n_group=1, topk_group=1,
                       first_k_dense_replace=1),
    "Bamba": None,
}
DECODERS = {name: settings for name, settings in DECODERS.items() if settings is not None}
ENCODERS = {
    "Bert": {},
    "Roberta": {},
    "Electra": dict(embedding_size=32),
    "ModernBert": dict(local_attention=6, global_attn_every_n_layers=2, layer_types=None),
}
PAIRS = {"Bart": PAIR, "Pegasus": PAIR, "T5": dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                                                   num_heads=4, pad_token_id=0, eos_token_id=2,
                                                   decoder_start_token_id=1)}


def _class(family: str, kind: str):
    return getattr(transformers, family + kind)


def _made(model_class, config, implementation: str):
    torch.manual_seed(11)
    config._attn_implementation = implementation
    model = model_class._from_config(config, attn_implementation=implementation)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.25)
    return model.eval()


def decoder(family: str, implementation: str):
    """A causal language model of a family."""
    settings = {**SIZES, **DECODERS[family]}
    return _made(_class(family.removesuffix("Text") if family == "Llama4Text_" else family, "ForCausalLM")
                 if hasattr(transformers, family + "ForCausalLM")
                 else _class(family.removesuffix("Text"), "ForCausalLM"),
                 _class(family, "Config")(**settings), implementation)
