# SPDX-License-Identifier: Apache-2.0
"""Tiny models of transformers with random weights: how each family of test_transformers.py is made."""
import torch
import transformers

VOCABULARY = 61
# What most decoders call their sizes.
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24)
MIXED = dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
PAIR = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)

LATENT = dict(EXPERTS, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=10, qk_rope_head_dim=4, qk_nope_head_dim=6,
              v_head_dim=8, n_routed_experts=4, n_group=1, topk_group=1, first_k_dense_replace=1)

# Decoders by the name of their configuration: what differs from SIZES.
DECODERS = {
    "Llama": {},
    "Mistral": dict(sliding_window=5),
    "Mixtral": dict(sliding_window=6, num_local_experts=4),
    "Ministral": dict(MIXED, head_dim=8),
    "Qwen2": dict(use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "Qwen3": dict(head_dim=12),
    "Qwen2Moe": EXPERTS,
    "Qwen3Moe": dict(EXPERTS, head_dim=8),
    "Gemma": dict(head_dim=16),
    "Gemma2": dict(MIXED, head_dim=12, attn_logit_softcapping=2.0, query_pre_attn_scalar=12),
    "Gemma3Text": dict(MIXED, head_dim=8),
    "Phi": dict(partial_rotary_factor=0.5),
    "Phi3": dict(sliding_window=6),
    "GPTNeoX": dict(rotary_pct=0.25),
    "GPT2": dict(n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "OPT": dict(ffn_dim=48, word_embed_proj_dim=32),
    "StableLm": {},
    "Starcoder2": dict(sliding_window=5),
    "Olmo": {},
    "Olmo2": {},
    "Olmo3": MIXED,
    "Cohere": dict(logit_scale=1.0),
    "Cohere2": dict(MIXED, logit_scale=1.0),
    "Granite": dict(attention_multiplier=0.3),
    "Glm": dict(head_dim=8),
    "Glm4": dict(head_dim=8),
    "Helium": dict(head_dim=8),
    "Nemotron": dict(head_dim=8),
    "SmolLM3": dict(no_rope_layers=[1, 0]),
    "GptOss": dict(MIXED, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
    "Exaone4": MIXED,
    "DiffLlama": dict(head_dim=8),
    "NanoChat": {},
    "Jais2": {},
    "Olmoe": dict(num_experts=4, num_experts_per_tok=2),
    "Llama4Text": dict(head_dim=8, attention_chunk_size=5, num_local_experts=2, num_experts_per_tok=1,
                       intermediate_size_mlp=48, interleave_moe_layer_step=2, no_rope_layers=[1, 0],
                       layer_types=["chunked_attention", "full_attention"], attn_temperature_tuning=False),
    "DeepseekV3": LATENT,
    "Inkling2Text": dict(head_dim=8, swa_head_dim=8, swa_num_attention_heads=4, swa_num_key_value_heads=2,
                         sliding_window_size=5, rel_extent=6, d_rel=4, n_routed_experts=4, num_experts_per_tok=2,
                         moe_intermediate_size=24, layer_types=["hybrid_sliding", "hybrid"],
                         unpadded_vocab_size=VOCABULARY),
}
# Decoders that select the keys of each query, by tokens and by blocks. A mask is made for them.
SELECTING = {
    "DeepseekV32": dict(LATENT, index_topk=4, index_head_dim=8, index_n_heads=2),
    "MiniMaxM3VLText": dict(head_dim=8, rotary_dim=4, index_n_heads=2, index_head_dim=8, index_block_size=2,
                            index_topk_blocks=2, dense_intermediate_size=24, shared_intermediate_size=24,
                            num_local_experts=4, num_experts_per_tok=2,
                            layer_types=["minimax_m3_sparse", "full_attention"]),
}
ENCODERS = {
    "Bert": {},
    "Roberta": {},
    "Electra": dict(embedding_size=32),
    "DistilBert": dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4),
    "NomicBert": {},
    "ModernBert": dict(local_attention=6, global_attn_every_n_layers=2),
}
PAIRS = {
    "Bart": PAIR,
    "Pegasus": PAIR,
    "MBart": PAIR,
    "UMT5": dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, pad_token_id=0,
                 eos_token_id=2, decoder_start_token_id=1),
    "T5": dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, pad_token_id=0,
               eos_token_id=2, decoder_start_token_id=1),
}


def config_of(family: str, settings: dict):
    """The configuration of a family."""
    return getattr(transformers, f"{family}Config")(**settings)


def made(auto, config, implementation: str):
    """A model from a configuration, with weights that are the same for every implementation."""
    model = auto.from_config(config, attn_implementation=implementation)
    assert model.config._attn_implementation == implementation
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.25)
    return model.eval()


def pair_of(auto, family: str, settings: dict):
    """Two models of the same weights: eager and ringattn."""
    return [made(auto, config_of(family, settings), name) for name in ("eager", "ringattn")]


def decoders(family: str):
    """Two causal language models of a family."""
    return pair_of(transformers.AutoModelForCausalLM, family, {**SIZES, **(DECODERS.get(family) or SELECTING.get(family, {}))})


def encoders(family: str):
    """Two masked language models of a family."""
    return pair_of(transformers.AutoModelForMaskedLM, family, {**SIZES, **ENCODERS[family]})


def pairs(family: str):
    """Two encoder-decoder models of a family."""
    return pair_of(transformers.AutoModelForSeq2SeqLM, family, PAIRS[family])
