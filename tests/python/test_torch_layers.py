# SPDX-License-Identifier: Apache-2.0
"""The layers: state dicts of nn.MultiheadAttention, dilated attention by its definition."""
import math

import pytest

torch = pytest.importorskip("torch")

import ringattn
import ringattn.torch as rt


def pair(*arguments, **options):
    theirs = torch.nn.MultiheadAttention(*arguments, **options)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3)
    ours = rt.MultiheadAttention(*arguments, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def agree(ours, theirs, inputs, **masks):
    results = []
    for layer in (ours, theirs):
        out = layer(*inputs, need_weights=False, **masks)[0]
        results.append((out, *torch.autograd.grad(out.square().sum(), (*inputs, *layer.parameters()), allow_unused=True)))
    for a, b in zip(*results):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_self_attention(batch_first, bias):
    x = torch.randn(3, 7, 16, requires_grad=True)
    agree(*pair(16, 4, batch_first=batch_first, bias=bias), (x, x, x))


def test_cross_attention_with_other_widths():
    q, k, v = (torch.randn(2, n, w, requires_grad=True) for n, w in ((5, 16), (9, 12), (9, 8)))
    agree(*pair(16, 4, kdim=12, vdim=8, batch_first=True), (q, k, v))


def test_unbatched():
    x = torch.randn(7, 16, requires_grad=True)
    agree(*pair(16, 4), (x, x, x))


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(kind):
    x = torch.randn(2, 6, 16, requires_grad=True)
    hidden = torch.ones(6, 6).triu(1).bool()
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    if kind == "float":
        hidden, padding = (torch.zeros(m.shape).masked_fill(m, -math.inf) for m in (hidden, padding))
    agree(*pair(16, 4, batch_first=True), (x, x, x), attn_mask=hidden, key_padding_mask=padding)
    many = hidden.expand(8, 6, 6)
    agree(*pair(16, 4, batch_first=True), (x, x, x), attn_mask=many)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_inside_of_a_transformer_layer(training, causal):
    """The layer takes the place of nn.MultiheadAttention in nn.TransformerEncoderLayer."""
    block = torch.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, dropout=0.0, batch_first=True).train(training)
    x = torch.randn(2, 6, 16)
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    masks = dict(src_key_padding_mask=padding)
    if causal:
        masks.update(src_mask=torch.ones(6, 6).triu(1).bool(), is_causal=True)
    with torch.set_grad_enabled(training):
        expected = block(x, **masks)
        ours = rt.MultiheadAttention(16, 4, batch_first=True)
        ours.load_state_dict(block.self_attn.state_dict())
        block.self_attn = ours.train(training)
        found = block(x, **masks)
    assert torch.allclose(found[~padding], expected[~padding], atol=1e-5)


def test_causal_rotary_goes_by_distance():
    layer = rt.MultiheadAttention(16, 2, batch_first=True, pattern="window:2,0", rotary=10000.0)
    x = torch.randn(1, 8, 16)
    assert torch.allclose(layer(x)[0][:, 5:], layer(x[:, 3:])[0][:, 2:], atol=1e-5)


def test_compile():
    layer = rt.MultiheadAttention(16, 2, batch_first=True, pattern="causal", rotary=10000.0)
    x = torch.randn(2, 8, 16)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(x)[0], layer(x)[0], atol=1e-6)


def test_refusals():
    with pytest.raises(ringattn.UnsupportedError, match="add_bias_kv is True"):
        rt.MultiheadAttention(16, 2, add_bias_kv=True)
    with pytest.raises(ringattn.UnsupportedError, match="need_weights is True"):
        rt.MultiheadAttention(16, 2)(torch.zeros(1, 16), need_weights=True)
    with pytest.raises(ringattn.ArgumentError, match="embed_dim is 10 and num_heads is 4"):
        rt.MultiheadAttention(10, 4)
    with pytest.raises(ringattn.ArgumentError, match="segment_lengths"):
        rt.DilatedAttention([4, 8], [1])


def dilated_by_hand(q, k, v, segments, rates, causal, torchscale):
    """Each key counted once for each branch that lets the query see it."""
    length, heads = q.shape[1:3]
    t = torch.arange(length)
    counts = torch.zeros(heads, length, length)
    for segment, rate in zip(segments, rates):
        for head in range(heads):
            offset = head // (-(-heads // rate)) if torchscale else head % rate
            member = t % segment % rate == offset
            counts[head] += member[:, None] & member & (t[:, None] // segment == t // segment)
    if causal:
        counts = counts.tril()
    s = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    weights = counts * s.exp()
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("bhij,bjhd->bihd", weights, v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mode", ["paper", "torchscale"])
@pytest.mark.parametrize("heads", [4, 6])
def test_dilated(causal, mode, heads):
    q, k, v = (torch.randn(1, 32, heads, 8, requires_grad=True) for _ in range(3))
    out = rt.DilatedAttention([8, 16, 32], [1, 2, 4], mode, causal)(q, k, v)
    expected = dilated_by_hand(q, k, v, [8, 16, 32], [1, 2, 4], causal, mode == "torchscale")
    assert torch.allclose(out, expected, atol=1e-5)
    for a, b in zip(torch.autograd.grad(out.square().sum(), (q, k, v)),
                    torch.autograd.grad(expected.square().sum(), (q, k, v))):
        assert torch.allclose(a, b, atol=1e-4)


def test_multihead_dilated():
    layer = rt.MultiheadDilatedAttention(32, 4, [8, 32], [1, 4])
    names = {f"{name}.{kind}" for name in ("q_proj", "k_proj", "v_proj", "out_proj", "inner_attn_ln")
             for kind in ("weight", "bias")}
    assert set(layer.state_dict()) == names
    x = torch.randn(2, 32, 32)
    q, k, v = (getattr(layer, name)(x).unflatten(-1, (4, 8)) for name in ("q_proj", "k_proj", "v_proj"))
    inner = dilated_by_hand(q, k, v, [8, 32], [1, 4], False, True).flatten(-2)
    assert torch.allclose(layer(x), layer.out_proj(layer.inner_attn_ln(inner)), atol=1e-5)
