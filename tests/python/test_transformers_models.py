# SPDX-License-Identifier: Apache-2.0
"""Tiny models of many families: attn_implementation="ringattn" against eager attention."""
import ast
import inspect
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import ringattn.transformers
import tiny_models
from ringattn.transformers import forward, masks
from transformers import masking_utils

ringattn.transformers.register()
transformers.logging.set_verbosity_error()

LENGTH = 11


def tokens(batch=2, length=LENGTH, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, tiny_models.VOCABULARY, (batch, length), generator=generator)


def padded(side: str, batch=2, length=LENGTH):
    """An attention mask whose element i has 3i padding tokens on a side."""
    valid = torch.ones(batch, length, dtype=torch.int64)
    for i in range(1, batch):
        valid[i, slice(0, 3 * i) if side == "left" else slice(length - 3 * i, length)] = 0
    return valid


def close(found, expected, valid=None):
    """Whether two results agree to float32 rounding, where tokens are valid."""
    if valid is not None:
        found, expected = found[valid.bool()], expected[valid.bool()]
    scale = max(1.0, expected.abs().max().item())
    return (found - expected).abs().max().item() <= 3e-5 * scale


@pytest.fixture
def no_mask(monkeypatch):
    """No mask of queries by keys may be made."""

    def refuse(*arguments, **options):
        raise AssertionError("a mask was made")

    monkeypatch.setattr(masks.masking_utils, "sdpa_mask", refuse)
    # The eager model makes its masks with functions of its own.
    monkeypatch.setitem(masking_utils.AttentionMaskInterface._global_mapping, "eager", _eager_mask())


def _eager_mask(original=masking_utils.sdpa_mask):
    """eager_mask with the sdpa_mask that it had."""
    names = dict(masking_utils.eager_mask.__globals__, sdpa_mask=original)
    function = type(masking_utils.eager_mask)(masking_utils.eager_mask.__code__, names,
                                              argdefs=masking_utils.eager_mask.__defaults__)
    return function


@pytest.mark.parametrize("family", tiny_models.DECODERS)
def test_decoder(family, no_mask):
    """Forward plain and padded on both sides, generation, and the loss and gradients of a training step."""
    compare(*tiny_models.decoders(family), ("left", "right"))


@pytest.mark.parametrize("family", tiny_models.SELECTING)
def test_decoder_that_selects_keys(family):
    """Blocks of MiniMax-M3 are counted from the first token of the row, valid or not: padding is on the right."""
    compare(*tiny_models.decoders(family), ("right",) if family == "MiniMaxM3VLText" else ("left", "right"))


def compare(eager, ours, sides):
    """All that test_decoder says, padded on the sides; generation is padded on the first."""
    ids = tokens()
    with torch.no_grad():
        assert close(ours(input_ids=ids).logits, eager(input_ids=ids).logits)
        for side in sides:
            valid = padded(side)
            options = dict(input_ids=ids, attention_mask=valid)
            assert close(ours(**options).logits, eager(**options).logits, valid), side
    results = [model.generate(ids, attention_mask=padded(sides[0]), max_new_tokens=7, min_new_tokens=7, do_sample=False,
                              return_dict_in_generate=True, output_logits=True) for model in (eager, ours)]
    assert torch.equal(results[0].sequences, results[1].sequences)
    assert close(torch.stack(results[1].logits), torch.stack(results[0].logits))
    train(eager, ours, dict(input_ids=ids, attention_mask=padded("right"),
                            labels=ids.masked_fill(padded("right") == 0, -100)))


def train(eager, ours, batch):
    """The loss and the gradients of all weights are the same."""
    losses = [model(**batch).loss for model in (eager, ours)]
    assert close(losses[1], losses[0])
    for loss in losses:
        loss.backward()
    compared = 0
    for (name, a), b in zip(eager.named_parameters(), ours.parameters()):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            assert (b.grad - a.grad).abs().max() <= 1e-4 * max(1e-2, a.grad.abs().max()), name
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("family", tiny_models.ENCODERS)
def test_encoder(family, no_mask):
    eager, ours = tiny_models.encoders(family)
    ids = tokens()
    for side in ("left", "right"):
        valid = padded(side)
        options = dict(input_ids=ids, attention_mask=valid)
        with torch.no_grad():
            assert close(ours(**options).logits, eager(**options).logits, valid)
    train(eager, ours, dict(input_ids=ids, attention_mask=valid, labels=ids.masked_fill(valid == 0, -100)))


@pytest.mark.parametrize("family", tiny_models.PAIRS)
def test_encoder_and_decoder(family, no_mask):
    """Cross attention over padded encoder states."""
    eager, ours = tiny_models.pairs(family)
    ids, valid = tokens(), padded("right")
    results = [model.generate(ids, attention_mask=valid, max_new_tokens=6, min_new_tokens=6, do_sample=False, num_beams=2)
               for model in (eager, ours)]
    assert torch.equal(*results)
    train(eager, ours, dict(input_ids=ids, attention_mask=valid, labels=tokens(length=7, seed=2)))


def passed_to_attention(path: Path) -> set:
    """The keywords that a file of models passes to its attention function, and those that its eager one takes."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("eager_attention"):
            names.update(x.arg for x in node.args.args + node.args.kwonlyargs)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "attention_interface":
            names.update(x.arg for x in node.keywords if x.arg)
    return names


def test_keywords_of_all_models_are_known():
    """A keyword that changes the result must not be ignored."""
    known = set(inspect.signature(forward.attention_forward).parameters) | {"output_attentions"}
    # Other names of tensors, and what the mask or the lengths of the tensors say as well.
    known |= {"query_states", "key_states", "value_states", "sliding_window", "position_ids", "deterministic",
              "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}
    files = list((Path(transformers.__file__).parent / "models").glob("*/modeling_*.py"))
    passed = {path.stem: passed_to_attention(path) - known for path in files}
    assert len(files) > 100 and not {name: names for name, names in passed.items() if names}


def test_whisper(no_mask):
    settings = dict(tiny_models.PAIR, num_mel_bins=8, max_source_positions=15, max_target_positions=20)
    eager, ours = tiny_models.pair_of(transformers.AutoModelForSpeechSeq2Seq, "Whisper", settings)
    batch = dict(input_features=torch.randn(2, 8, 30), labels=tokens(length=7))
    train(eager, ours, batch)


@pytest.mark.parametrize("family", ["ViT", "SiglipVision", "CLIPVision"])
def test_vision(family, no_mask):
    settings = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=12,
                    patch_size=4)
    eager, ours = tiny_models.pair_of(transformers.AutoModel, family, settings)
    pixels = torch.randn(2, 3, 12, 12)
    assert close(ours(pixels).last_hidden_state, eager(pixels).last_hidden_state)


def paligemma():
    vision = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                  num_attention_heads=2, image_size=8, patch_size=4, projection_dim=32)
    text = dict(tiny_models.SIZES, model_type="gemma", head_dim=8)
    settings = dict(vision_config=vision, text_config=text, image_token_index=60, projection_dim=32, hidden_size=32)
    return tiny_models.pair_of(transformers.AutoModelForImageTextToText, "PaliGemma", settings)


@pytest.mark.parametrize("suffixes", [(4, 4), (2, 5)])
def test_prefix(suffixes, no_mask):
    """PaliGemma: image and prompt see each other, the answer is causal; the same and different lengths of prompts."""
    eager, ours = paligemma()
    ids = tokens(length=13).clamp(max=59)
    ids[:, :4] = 60
    kinds = torch.stack([torch.arange(13) >= 13 - n for n in suffixes]).long()
    batch = dict(input_ids=ids, pixel_values=torch.randn(2, 3, 8, 8), attention_mask=torch.ones_like(ids),
                 token_type_ids=kinds)
    with torch.no_grad():
        assert close(ours(**batch).logits, eager(**batch).logits)
    prompt = dict(batch, token_type_ids=torch.zeros_like(ids))
    results = [model.generate(**prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False) for model in (eager, ours)]
    assert torch.equal(*results)


@pytest.mark.parametrize("family", ["Llama", "Gemma2", "Qwen3", "Llama4Text", "Mistral"])
@pytest.mark.parametrize("batch", [1, 2])
def test_packed(family, batch):
    """Position ids that begin anew: sequences do not see each other."""
    eager, ours = tiny_models.decoders(family)
    starts = [[5, 6], [2, 9]][:batch]
    positions = torch.stack([torch.cat([torch.arange(n) for n in row]) for row in starts])
    ids = tokens(batch)
    options = dict(input_ids=ids, position_ids=positions, use_cache=False)
    with torch.no_grad():
        found = ours(**options).logits
        assert close(found, eager(**options).logits)
        assert close(found[:1, 5:], ours(input_ids=ids[:1, 5:]).logits)


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Gemma3Text", "GptOss", "Llama4Text"])
def test_static_cache(family):
    eager, ours = tiny_models.decoders(family)
    options = dict(attention_mask=padded("left"), max_new_tokens=9, min_new_tokens=9, do_sample=False)
    expected = eager.generate(tokens(), **options)
    assert torch.equal(ours.generate(tokens(), cache_implementation="static", disable_compile=True, **options), expected)


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Llama4Text"])
def test_prefill_by_parts(family):
    """Several queries behind keys that are in the cache already."""
    eager, ours = tiny_models.decoders(family)
    ids = tokens()
    with torch.no_grad():
        expected = eager(input_ids=ids).logits
        first = ours(input_ids=ids[:, :4], use_cache=True)
        then = ours(input_ids=ids[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    assert close(torch.cat((first.logits, then.logits), 1), expected)


def test_half_precision_and_autocast():
    eager, ours = tiny_models.decoders("Llama")
    ids = tokens()
    with torch.no_grad():
        expected = eager(input_ids=ids).logits
        with torch.autocast("cpu", torch.bfloat16):
            assert (ours(input_ids=ids).logits - expected).abs().max() < 0.05
        assert (ours.bfloat16()(input_ids=ids).logits - expected).abs().max() < 0.05


def test_compile():
    """One graph, with a mask that is a tensor."""
    eager, ours = tiny_models.decoders("Gemma2")
    valid = padded("left")
    options = dict(input_ids=tokens(), attention_mask=valid, use_cache=False)
    with torch.no_grad():
        found = torch.compile(ours, fullgraph=True, backend="aot_eager")(**options).logits
        assert close(found, eager(**options).logits, valid)


def test_gradient_checkpointing():
    eager, ours = tiny_models.decoders("Gemma2")
    ours.gradient_checkpointing_enable()
    ours.train()
    train(eager, ours, dict(input_ids=tokens(), labels=tokens(), use_cache=False))


def test_key_heads_are_not_repeated(monkeypatch):
    _, ours = tiny_models.decoders("Llama")
    heads = []
    original = forward.call
    monkeypatch.setattr(forward, "call", lambda q, k, *rest, **options: heads.append((q.shape[2], k.shape[2]))
                        or original(q, k, *rest, **options))
    with torch.no_grad():
        ours(input_ids=tokens())
    assert heads == [(4, 2), (4, 2)]


def test_masks_that_are_tensors():
    eager, ours = tiny_models.decoders("Llama")
    seen = (torch.rand(2, 1, LENGTH, LENGTH) < 0.7) | torch.eye(LENGTH).bool()
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = eager(input_ids=tokens(), attention_mask=added).logits
        assert close(ours(input_ids=tokens(), attention_mask=added).logits, expected)
        assert close(ours(input_ids=tokens(), attention_mask=seen).logits, expected)


@pytest.mark.parametrize("family", ["Bloom", "GPTJ", "OpenAIGPT"])
def test_models_with_attention_of_their_own_are_refused(family):
    """They would ignore the implementation: with other masks (Bloom), by chance (OpenAIGPT) or by a KeyError (GPTJ)."""
    config = tiny_models.config_of(family, dict(vocab_size=tiny_models.VOCABULARY, n_embd=32, n_layer=1, n_head=4))
    with pytest.raises(ringattn.UnsupportedError, match="has attention of its own"):
        transformers.AutoModelForCausalLM.from_config(config, attn_implementation="ringattn")
    assert transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def test_vision_with_windows():
    """Qwen2.5-VL: images of two sizes in one row of patches, windows inside of each, and rotary positions of three kinds."""
    sizes = dict(tiny_models.SIZES, rope_parameters=dict(rope_type="default", mrope_section=[1, 1, 2], rope_theta=1e4))
    vision = dict(depth=2, hidden_size=32, num_heads=4, intermediate_size=48, out_hidden_size=32, patch_size=4,
                  spatial_merge_size=2, temporal_patch_size=2, window_size=16, fullatt_block_indexes=[1])
    settings = dict(vision_config=vision, text_config=sizes, image_token_id=60, video_token_id=59, vision_start_token_id=58,
                    vision_end_token_id=57)
    eager, ours = tiny_models.pair_of(transformers.AutoModelForImageTextToText, "Qwen2_5_VL", settings)
    ids = torch.cat([torch.tensor([58] + [60] * 4), tokens(1)[0].clamp(max=50), torch.tensor([58] + [60] * 16),
                     tokens(1, seed=2)[0].clamp(max=50)])[None]
    batch = dict(input_ids=ids, pixel_values=torch.randn(16 + 64, 3 * 2 * 4 * 4),
                 image_grid_thw=torch.tensor([[1, 4, 4], [1, 8, 8]]), mm_token_type_ids=(ids == 60).long())
    train(eager, ours, dict(batch, labels=ids, use_cache=False))
    with torch.no_grad():
        assert close(ours(**batch).logits, eager(**batch).logits)
