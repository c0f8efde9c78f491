# SPDX-License-Identifier: Apache-2.0
"""ringattn.torch.attention: agreement with a float64 definition in PyTorch, autograd, compilation, refusals."""
import math

import pytest

torch = pytest.importorskip("torch")

import ringattn
import ringattn.torch as rt
from ringattn.torch import double
from ringattn.torch.attention import _backward, _forward

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tensors(*shapes, dtype=torch.float32, seed=1, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_(grad) for s in shapes]


def definition(q, k, v, visible, bias=0.0, sinks=None, scale=None, softcap=None):
    """Output and log-sum-exp of [batch, seq, heads, dim] tensors in float64, pair by pair."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(2, 3) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    s = (s + bias).masked_fill(~visible, -math.inf)
    if sinks is not None:
        s = torch.cat((s, sinks.double()[None, :, None, None].expand(*s.shape[:3], 1)), 3)
    lse = s.logsumexp(3)
    weights = (s - lse[..., None].masked_fill(lse[..., None] == -math.inf, 0)).exp()[..., : k.shape[2]]
    return (weights @ v).transpose(1, 2), lse


def compare(found, expected, inputs, dtype=torch.float32):
    """Outputs, and gradients of one made-up loss over all of them."""
    generator = torch.Generator().manual_seed(9)
    gradients = []
    for outputs in (found, expected):
        loss = 0
        generator.manual_seed(9)
        for out in outputs:
            weight = torch.randn(out.shape, generator=generator)
            loss = loss + (out.double() * weight).masked_fill(out == -math.inf, 0).sum()
        gradients.append(torch.autograd.grad(loss, inputs))
    for a, b in zip((*found, *gradients[0]), (*expected, *gradients[1])):
        a, b = a.double(), b.double()
        finite = b.isfinite()
        assert torch.equal(a.isfinite(), finite)
        largest = b[finite].abs().max().item() if finite.any() else 0.0
        assert (a - b)[finite].abs().max().item() <= TOLERANCE[dtype] * max(1.0, largest) if finite.any() else True


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows, keys, heads, kv_heads, dim, value_dim",
                         [(1, 1, 1, 1, 1, 1), (7, 7, 2, 2, 8, 8), (33, 70, 6, 2, 17, 5), (5, 3, 3, 1, 40, 40)])
def test_causal(dtype, rows, keys, heads, kv_heads, dim, value_dim):
    q, k, v = tensors((2, rows, heads, dim), (2, keys, kv_heads, dim), (2, keys, kv_heads, value_dim), dtype=dtype)
    visible = torch.arange(rows)[:, None] + keys - rows >= torch.arange(keys)
    found = rt.attention(q, k, v, pattern="causal", return_lse=True)
    assert found[0].dtype == dtype and found[1].shape == (2, heads, rows)
    compare(found, definition(q, k, v, visible), (q, k, v), dtype)


def test_strides_and_layout():
    packed = torch.randn(3, 2, 9, 4, 8)
    q, k, v = (x.transpose(1, 2).requires_grad_() for x in packed)
    found = rt.attention(q, k, v, layout="bhsd", pattern="window:3,1", return_lse=True)
    gap = torch.arange(9) - torch.arange(9)[:, None]
    out, lse = definition(*(x.transpose(1, 2) for x in (q, k, v)), (gap >= -3) & (gap <= 1))
    compare(found, (out.transpose(1, 2), lse), (q, k, v))


def test_arrays_have_gradients():
    q, k, v = tensors((2, 6, 4, 8), (2, 9, 2, 8), (2, 9, 2, 8))
    bias, sinks, slopes, table = tensors((2, 4, 6, 9), (4,), (4,), (4, 5), seed=3)
    gap = torch.arange(9) - (torch.arange(6)[:, None] + 3)
    mask = torch.rand(2, 4, 6, 9) < 0.6
    added = bias.double() - slopes.double()[:, None, None] * gap.abs() + table.double()[:, gap.clamp(-2, 2) + 2]
    found = rt.attention(q, k, v, scores="softcap:5+alibi+relative+bias+sinks", mask=mask, bias=bias, sinks=sinks,
                         slopes=slopes, table=table, return_lse=True)
    expected = definition(q, k, v, mask, added, sinks, softcap=5.0)
    compare(found, expected, (q, k, v, bias, sinks, slopes, table))


def test_gradient_of_a_frozen_query():
    q, k, v = tensors((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8))
    q.requires_grad_(False)
    compare([rt.attention(q, k, v)], [definition(q, k, v, torch.ones(5, 5).bool())[0]], (k, v))


def test_gradient_of_the_lse_alone():
    q, k, v = tensors((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8))
    found = rt.attention(q, k, v, return_lse=True)[1]
    compare([found], [definition(q, k, v, torch.ones(5, 5).bool())[1]], (q, k))


def test_no_gradient_takes_the_same_values():
    q, k, v = tensors((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8))
    with torch.no_grad():
        plain = rt.attention(q, k, v, pattern="causal")
    assert not plain.requires_grad and torch.equal(plain, rt.attention(q, k, v, pattern="causal"))


def test_empty_rows():
    q, k, v = tensors((1, 4, 2, 8), (1, 2, 2, 8), (1, 2, 2, 8))
    out, lse = rt.attention(q, k, v, pattern="causal", return_lse=True)
    assert out[:, :2].eq(0).all() and lse[..., :2].eq(-math.inf).all()
    out.sum().backward()
    assert q.grad[:, :2].eq(0).all() and k.grad.isfinite().all()


@pytest.mark.parametrize("batch, rows, keys", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (2, 0, 0)])
def test_sizes_of_zero(batch, rows, keys):
    q, k, v = tensors((batch, rows, 2, 8), (batch, keys, 2, 8), (batch, keys, 2, 5))
    out, lse = rt.attention(q, k, v, return_lse=True)
    assert out.shape == (batch, rows, 2, 5) and out.eq(0).all()
    assert lse.shape == (batch, 2, rows) and lse.eq(-math.inf).all()
    out.sum().backward()
    for x in (q, k, v):
        assert x.grad.shape == x.shape and x.grad.eq(0).all()


def test_compile_without_a_break():
    q, k, v = tensors((2, 6, 4, 8), (2, 9, 2, 8), (2, 9, 2, 8))
    bias, = tensors((1, 1, 1, 9), seed=4)

    def step(q, k, v, bias):
        out, lse = rt.attention(q, k, v, pattern="causal", bias=bias, return_lse=True)
        return out * 2, lse

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    compare(compiled(q, k, v, bias), step(q, k, v, bias), (q, k, v, bias))


def arguments(q, k, v, **arrays):
    names = ("mask", "bias", "slopes", "table", "sinks", "lengths", "documents")
    return (q, k, v, "causal", "softcap:9", None, "bshd", None, 0, 0, None, 0.25, torch.tensor(7), False,
            *(arrays.get(name) for name in names))


def test_opcheck():
    q, k, v = tensors((2, 6, 4, 8), (2, 9, 2, 8), (2, 9, 2, 5))
    bias, sinks = tensors((2, 1, 6, 9), (4,), seed=3)
    mask = torch.rand(2, 4, 6, 9) < 0.9
    torch.library.opcheck(_forward, arguments(q, k, v))
    torch.library.opcheck(_forward, arguments(q, k, v, bias=bias, sinks=sinks, mask=mask))
    plain = [x.detach() for x in (q, k, v)]
    out, lse = _forward(*arguments(*plain, bias=bias.detach()))
    needs = [True, False, True, False, False, True, False]
    torch.library.opcheck(_backward, (torch.randn_like(out), None, out, lse, needs,
                                      *arguments(*plain, bias=bias.detach())))


@pytest.mark.parametrize("options", [dict(pattern="causal"), dict(pattern="window:1,1", scores="softcap:4")])
def test_gradcheck(options):
    if not double.available():
        pytest.skip("the C library has no float64")
    q, k, v = (x.detach().double().requires_grad_() for x in tensors((1, 3, 2, 4), (1, 4, 1, 4), (1, 4, 1, 3)))
    assert torch.autograd.gradcheck(lambda *x: rt.attention(*x, return_lse=True, **options), (q, k, v))


def test_float64_without_support_is_refused():
    if double.available():
        pytest.skip("the C library has float64")
    q = torch.zeros(1, 2, 1, 4, dtype=torch.float64)
    with pytest.raises(ringattn.UnsupportedError, match="float64"):
        rt.attention(q, q, q)


def test_devices_are_refused_by_name():
    q = torch.zeros(1, 2, 1, 4)
    with pytest.raises(ringattn.UnsupportedError, match="k is on device 'meta'"):
        rt.attention(q, q.to("meta"), q)
    with pytest.raises(ringattn.UnsupportedError, match="sinks is on device 'meta'"):
        rt.attention(q, q, q, sinks=torch.zeros(1, device="meta"))


def test_mistakes_have_the_message_of_the_library():
    q = torch.zeros(1, 2, 1, 4, requires_grad=True)
    with pytest.raises(ringattn.ArgumentError, match="casual"):
        rt.attention(q, q, q, pattern="casual")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_are_refused(dtype):
    q = torch.randn(1, 3, 2, 4, dtype=dtype, requires_grad=True)
    first, = torch.autograd.grad(rt.attention(q, q, q).sum(), q, create_graph=True)
    with pytest.raises(ringattn.UnsupportedError, match="second derivatives are not computed"):
        first.sum().backward()


def test_transforms_that_would_lose_derivatives_are_refused():
    q = torch.randn(1, 3, 2, 4)
    attend = lambda x: rt.attention(q, x, q)
    with pytest.raises(ringattn.UnsupportedError, match=r"k has a tangent of forward-mode differentiation \(jvp\)"):
        torch.func.jvp(attend, (q,), (q,))
    with pytest.raises(ringattn.UnsupportedError, match="gradient transform of torch.func"):
        torch.func.grad(lambda x: attend(x).sum())(q)
    with torch.autograd.forward_ad.dual_level():
        assert torch.equal(attend(q), rt.attention(q, q, q))
        with pytest.raises(ringattn.UnsupportedError, match="bias has a tangent"):
            rt.attention(q, q, q, bias=torch.autograd.forward_ad.make_dual(torch.zeros(3, 3), torch.ones(3, 3)))


def test_vmap():
    x = torch.randn(5, 1, 3, 2, 4)
    assert torch.equal(torch.vmap(lambda q: rt.attention(q, q, q))(x), torch.stack([rt.attention(q, q, q) for q in x]))


def test_autocast_leaves_dtypes_alone():
    q = torch.randn(1, 3, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert rt.attention(q, q, q).dtype == torch.float32
        assert rt.scaled_dot_product_attention(q, q, q).dtype == torch.bfloat16


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_are_refused(layout):
    nested = torch.nested.nested_tensor([torch.randn(n, 2, 4) for n in (3, 5)], layout=getattr(torch, layout))
    with pytest.raises(ringattn.UnsupportedError, match="k is a nested tensor"):
        rt.attention(torch.randn(2, 5, 2, 4), nested, nested)
    with pytest.raises(ringattn.UnsupportedError, match="query is a nested tensor"):
        rt.scaled_dot_product_attention(nested, nested, nested)


def test_threads_of_a_data_parallel_program():
    """Forward and backward from several threads at a time, with one set of weights."""
    from concurrent.futures import ThreadPoolExecutor

    layer = rt.MultiheadAttention(16, 2, batch_first=True, pattern="causal")
    parts = torch.randn(8, 2, 9, 16)

    def step(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(layer(x, x, x)[0].sin().sum(), (x, layer.in_proj_weight))

    expected = [step(x) for x in parts]
    with ThreadPoolExecutor(4) as pool:
        for found, same in zip(pool.map(step, parts), expected):
            assert all(torch.equal(a, b) for a, b in zip(found, same))
