# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention beside PyTorch's own: shapes, dtypes, masks, gradients."""
import math

import pytest

torch = pytest.importorskip("torch")

import ringattn
import ringattn.torch as rt
from ringattn.torch import double

theirs = torch.nn.functional.scaled_dot_product_attention
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def compare(q, k, v, mask=None, **options):
    """Output and gradients, ours in the tensors' dtype and theirs in float32."""
    inputs = [q, k, v] + ([mask] if mask is not None and mask.is_floating_point() else [])
    for x in inputs:
        x.requires_grad_()
    ours = rt.scaled_dot_product_attention(q, k, v, mask, **options)
    float_mask = mask.float() if mask is not None and mask.is_floating_point() else mask
    expected = theirs(q.float(), k.float(), v.float(), float_mask, **options)
    assert ours.shape == expected.shape and ours.dtype == q.dtype
    weight = torch.randn(expected.shape)
    found = torch.autograd.grad((ours.float() * weight).sum(), inputs)
    wanted = torch.autograd.grad((expected * weight).sum(), inputs)
    for a, b in zip((ours, *found), (expected, *wanted)):
        scale = max(1.0, b.float().abs().max().item()) if b.numel() else 1.0
        assert (a.float() - b.float()).abs().max().item() <= TOLERANCE[q.dtype] * scale if b.numel() else True


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lead, rows, keys, dim",
                         [((), 5, 5, 8), ((3,), 9, 4, 8), ((2, 3), 17, 33, 24), ((2, 2, 3), 4, 7, 16), ((0, 2), 3, 3, 8)])
def test_shapes(dtype, causal, lead, rows, keys, dim):
    torch.manual_seed(1)
    q, k, v = (torch.randn(*lead, n, dim).to(dtype) for n in (rows, keys, keys))
    compare(q, k, v, is_causal=causal)


def test_transposed_inputs_and_scale():
    q, k, v = (torch.randn(2, 9, 4, 8).transpose(1, 2) for _ in range(3))
    compare(q, k, v, scale=0.3)


def test_grouped_heads():
    compare(torch.randn(2, 6, 5, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8), enable_gqa=True)


def test_broadcast_batches():
    compare(torch.randn(2, 3, 5, 8), torch.randn(1, 1, 9, 8), torch.randn(2, 1, 9, 8))


@pytest.mark.parametrize("shape", [(5, 9), (1, 9), (2, 1, 5, 9), (2, 1, 1, 9), (1, 3, 5, 9), (2, 3, 5, 9), (3, 5, 1)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(shape, kind):
    torch.manual_seed(2)
    mask = torch.rand(shape) < 0.7 if kind == "bool" else torch.randn(shape)
    compare(torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), mask)


@pytest.mark.parametrize("value", [False, -math.inf])
def test_rows_that_are_hidden(value):
    mask = torch.ones(5, 9).bool() if value is False else torch.zeros(5, 9)
    mask[2] = value
    mask[1, 3:] = value
    compare(torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), mask)


def test_rows_of_the_lowest_float_give_zeros():
    q, k, v = (torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(3))
    mask = torch.zeros(5, 5)
    mask[2] = torch.finfo(torch.float32).min
    out = rt.scaled_dot_product_attention(q, k, v, mask)
    out.sum().backward()
    assert out[:, :, 2].eq(0).all() and q.grad[:, :, 2].eq(0).all() and k.grad.isfinite().all()


def test_dropout_follows_the_generator():
    q, k, v = (torch.randn(1, 2, 40, 8) for _ in range(3))
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(rt.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
    ones = torch.ones(1, 2, 400, 8)
    assert abs(rt.scaled_dot_product_attention(q, k[:, :, :1].expand(1, 2, 400, 8), ones, dropout_p=0.5).mean() - 1) < 0.1


def test_dropout_has_the_gradient_of_its_draws():
    if not double.available():
        pytest.skip("the C library has no float64")

    def step(*inputs):
        torch.manual_seed(3)
        return rt.scaled_dot_product_attention(*inputs, dropout_p=0.4, is_causal=True)

    q, k, v = (torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(step, (q, k, v))
    ours = step(*(x.float() for x in (q, k, v)))
    assert torch.allclose(ours.double(), step(q, k, v), atol=1e-5)


def test_compile():
    q, k, v = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    mask = torch.randn(5, 5)

    def step(q, k, v):
        out = rt.scaled_dot_product_attention(q, k, v, mask) + rt.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out + rt.scaled_dot_product_attention(q, k, v, dropout_p=0.5) * 0

    out = torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, v)
    assert torch.allclose(out, step(q, k, v), atol=1e-6)
    out.sum().backward()


def test_autocast():
    q = torch.randn(1, 2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert rt.scaled_dot_product_attention(q, q, q).dtype == theirs(q, q, q).dtype == torch.bfloat16


def test_refusals():
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(ringattn.ArgumentError, match="attn_mask and is_causal"):
        rt.scaled_dot_product_attention(q, q, q, torch.ones(5, 5).bool(), is_causal=True)
    with pytest.raises(ringattn.ArgumentError, match="dropout_p is 1.0"):
        rt.scaled_dot_product_attention(q, q, q, dropout_p=1.0)
    with pytest.raises(ringattn.ArgumentError, match=r"attn_mask has shape \(1, 3, 5, 5\)"):
        rt.scaled_dot_product_attention(q, q, q, torch.ones(1, 3, 5, 5).bool())
    with pytest.raises(ringattn.ArgumentError, match=r"key has shape \(1, 3, 5, 8\).*enable_gqa"):
        rt.scaled_dot_product_attention(q, q[:, :1].expand(1, 3, 5, 8), q[:, :1].expand(1, 3, 5, 8))
    with pytest.raises(ringattn.UnsupportedError, match="key is on device 'meta'"):
        rt.scaled_dot_product_attention(q, q.to("meta"), q)
    with pytest.raises(ringattn.UnsupportedError, match="attn_mask is on device 'meta'"):
        rt.scaled_dot_product_attention(q, q, q, torch.ones(5, 5, device="meta"))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_masks_of_other_dtypes_are_refused(dtype):
    q = torch.randn(1, 2, 3, 8)
    with pytest.raises(ringattn.ArgumentError, match=f"attn_mask has dtype {dtype}"):
        rt.scaled_dot_product_attention(q, q, q, torch.ones(3, 3, dtype=dtype))
