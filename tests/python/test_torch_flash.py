# SPDX-License-Identifier: Apache-2.0
"""The flash-attn functions against loops over sequences with PyTorch's attention."""
import math

import pytest

torch = pytest.importorskip("torch")

import ringattn
import ringattn.torch as rt

WINDOWS = [(-1, -1), (2, -1), (-1, 1), (3, 0)]


def by_hand(q, k, v, causal=False, window=(-1, -1), softcap=0.0, slopes=None):
    """One sequence [seq, heads, dim] by the definition, aligned at the bottom right; and its log-sum-exp."""
    q, k, v = (x.transpose(0, 1).float() for x in (q, k, v))
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    s = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    gap = torch.arange(k.shape[1]) - (torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1])
    if slopes is not None:
        s = s - slopes[:, None, None] * gap.abs()
    seen = torch.ones_like(gap).bool()
    if causal:
        seen &= gap <= 0
    if window[0] >= 0:
        seen &= gap >= -window[0]
    if window[1] >= 0:
        seen &= gap <= window[1]
    s = s.masked_fill(~seen, -math.inf)
    lse = s.logsumexp(2)
    weights = (s - lse.masked_fill(lse == -math.inf, 0)[..., None]).exp()
    return (weights @ v).transpose(0, 1), lse


def gradients(out, inputs):
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    return torch.autograd.grad((out * weight).sum(), inputs)


def close(a, b):
    return torch.allclose(a, b, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
def test_func(causal, window):
    q, k, v = (torch.randn(2, n, h, 8, requires_grad=True) for n, h in ((7, 4), (11, 2), (11, 2)))
    slopes = torch.rand(4)
    out, lse, probabilities = rt.flash_attn_func(q, k, v, causal=causal, window_size=window, softcap=3.0,
                                                 alibi_slopes=slopes, return_attn_probs=True)
    rows = [by_hand(q[i], k[i], v[i], causal, window, 3.0, slopes) for i in range(2)]
    expected = torch.stack([row[0] for row in rows])
    assert probabilities is None and close(out, expected) and close(lse, torch.stack([row[1] for row in rows]))
    for a, b in zip(gradients(out, (q, k, v)), gradients(expected, (q, k, v))):
        assert close(a, b)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("lengths", [((3, 3), (5, 5)), ((3, 10), (6, 4), (1, 16), (0, 2)), ((2, 0), (4, 4))])
def test_varlen(causal, window, lengths):
    of_q, of_k = [n for n, _ in lengths], [n for _, n in lengths]
    q = torch.randn(sum(of_q), 4, 8, requires_grad=True)
    k, v = (torch.randn(sum(of_k), 2, 8, requires_grad=True) for _ in range(2))
    ends = [torch.tensor([0] + x, dtype=torch.int32).cumsum(0, dtype=torch.int32) for x in (of_q, of_k)]
    out, lse, _ = rt.flash_attn_varlen_func(q, k, v, *ends, max(of_q), max(of_k), causal=causal, window_size=window,
                                            return_attn_probs=True)
    rows = [by_hand(a, b, c, causal, window) for a, b, c in zip(q.split(of_q), k.split(of_k), v.split(of_k))]
    expected = torch.cat([row[0] for row in rows])
    assert close(out, expected) and close(lse, torch.cat([row[1] for row in rows], 1))
    for a, b in zip(gradients(out, (q, k, v)), gradients(expected, (q, k, v))):
        assert close(a, b)


@pytest.mark.parametrize("window", [(-1, -1), (4, 0)])
def test_kvcache(window):
    torch.manual_seed(3)
    k_cache, v_cache = torch.randn(2, 3, 20, 2, 8)
    before = k_cache.clone()
    lengths = torch.tensor([0, 5, 13], dtype=torch.int32)
    for step in range(2):
        q, k, v = torch.randn(3, 2, 4, 8), torch.randn(3, 2, 2, 8), torch.randn(3, 2, 2, 8)
        out, lse = rt.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, causal=True,
                                              window_size=window, return_softmax_lse=True)
        for i, n in enumerate(lengths.tolist()):
            assert torch.equal(k_cache[i, n : n + 2], k[i]) and torch.equal(v_cache[i, n : n + 2], v[i])
            expected = by_hand(q[i], k_cache[i, : n + 2], v_cache[i, : n + 2], True, window)
            assert close(out[i], expected[0]) and close(lse[i], expected[1])
        lengths = lengths + 2
    assert torch.equal(k_cache[0, 4:], before[0, 4:])


def test_kvcache_slots_padding_and_one_length():
    k_cache, v_cache = torch.randn(2, 4, 9, 2, 8)
    q = torch.randn(2, 1, 4, 8)
    out = rt.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=7, cache_batch_idx=torch.tensor([3, 1]),
                                     cache_leftpad=torch.tensor([2, 0]))
    assert close(out[0], by_hand(q[0], k_cache[3, 2:7], v_cache[3, 2:7])[0])
    assert close(out[1], by_hand(q[1], k_cache[1, :7], v_cache[1, :7])[0])


@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kvcache_pages(size, dtype):
    """A cache in pages gives the bits of one in rows, and new keys go to their pages."""
    torch.manual_seed(5)
    blocks = -(-20 // size)
    rows = torch.randn(2, 3, blocks * size, 2, 8).to(dtype)
    table = torch.randperm(3 * blocks + 2)[: 3 * blocks].reshape(3, blocks).to(torch.int32)
    pools = torch.zeros(2, 3 * blocks + 2, size, 2, 8, dtype=dtype)
    pools[:, table.long()] = rows.reshape(2, 3, blocks, size, 2, 8)
    q, k, v = torch.randn(3, 2, 4, 8).to(dtype), torch.randn(3, 2, 2, 8).to(dtype), torch.randn(3, 2, 2, 8).to(dtype)
    options = dict(cache_seqlens=torch.tensor([0, 5, 13]), causal=True, return_softmax_lse=True)
    out, lse = rt.flash_attn_with_kvcache(q, *pools, k, v, block_table=table, **options)
    expected, expected_lse = rt.flash_attn_with_kvcache(q, *rows, k, v, **options)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)
    assert torch.equal(pools[:, table.long()].reshape(rows.shape), rows)


@pytest.mark.parametrize("interleaved", [False, True])
def test_kvcache_rotary(interleaved):
    angles = torch.arange(12.0)[:, None] * torch.tensor([1.0, 0.1, 0.01])
    k_cache, v_cache = torch.zeros(2, 1, 12, 2, 8)
    q, k, v = torch.randn(1, 10, 2, 8), torch.randn(1, 10, 2, 8), torch.randn(1, 10, 2, 8)
    expected = rt.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, angles.cos(), angles.sin(), 0, causal=True,
                                          rotary_interleaved=interleaved)
    pairs = [(0, 1), (2, 3), (4, 5)] if interleaved else [(0, 3), (1, 4), (2, 5)]
    for i, (a, b) in enumerate(pairs):
        turn = torch.polar(torch.ones(10), angles[:10, i])
        value = torch.complex(k[0, :, 0, a], k[0, :, 0, b]) * turn
        assert close(k_cache[0, :10, 0, a], value.real) and close(k_cache[0, :10, 0, b], value.imag)
    k_cache, v_cache = torch.zeros(2, 1, 12, 2, 8)
    for i in range(10):
        rows = slice(i, i + 1)
        out = rt.flash_attn_with_kvcache(q[:, rows], k_cache, v_cache, k[:, rows], v[:, rows], angles.cos(),
                                         angles.sin(), i, causal=True, rotary_interleaved=interleaved)
        assert close(out, expected[:, rows])


def test_packed_tensors():
    """One tensor for queries, keys and values, or for keys and values; gradients reach it."""
    qkv = torch.randn(2, 9, 3, 4, 8, requires_grad=True)
    ends = torch.tensor([0, 4, 9], dtype=torch.int32)
    options = dict(causal=True, window_size=(3, 0), softcap=2.0)
    expected = rt.flash_attn_func(*qkv.unbind(2), **options)
    d_qkv, = gradients(expected, (qkv,))
    for out in (rt.flash_attn_qkvpacked_func(qkv, **options),
                rt.flash_attn_kvpacked_func(qkv[:, :, 0], qkv[:, :, 1:], **options)):
        assert torch.equal(out, expected)
        assert torch.equal(gradients(out, (qkv,))[0], d_qkv)
    expected = rt.flash_attn_varlen_func(*qkv[0].unbind(1), ends, ends, 5, 5, **options)
    assert torch.equal(rt.flash_attn_varlen_qkvpacked_func(qkv[0], ends, 5, **options), expected)
    assert torch.equal(rt.flash_attn_varlen_kvpacked_func(qkv[0, :, 0], qkv[0, :, 1:], ends, ends, 5, 5, **options),
                       expected)
    with pytest.raises(ringattn.ArgumentError, match=r"qkv has shape \(2, 9, 4, 8\): dimension 2 must be 3"):
        rt.flash_attn_qkvpacked_func(qkv[:, :, 0])


def test_refusals():
    q = torch.zeros(2, 3, 2, 8)
    table = torch.zeros(2, 1, dtype=torch.int32)
    ends = torch.tensor([0, 3], dtype=torch.int32)
    with pytest.raises(ringattn.UnsupportedError, match=r"block_table has shape \(2, 1\)"):
        rt.flash_attn_varlen_func(q[0], q[0], q[0], ends, ends, 3, 3, block_table=table)
    with pytest.raises(ringattn.ArgumentError, match=r"entry \[1, 0\] is 2: must be 0..1"):
        rt.flash_attn_with_kvcache(q, q, q, block_table=torch.tensor([[0], [2]], dtype=torch.int32))
    with pytest.raises(ringattn.ArgumentError, match="cache_batch_idx is given"):
        rt.flash_attn_with_kvcache(q, q, q, block_table=table, cache_batch_idx=torch.tensor([0, 1]))
    with pytest.raises(ringattn.ArgumentError, match=r"block_table\[0, 0\] is -1: k_cache has 2 pages"):
        rt.flash_attn_with_kvcache(q, q.clone(), q.clone(), q[:, :1], q[:, :1], cache_seqlens=1, block_table=table - 1)
    with pytest.raises(ringattn.UnsupportedError, match=r"alibi_slopes has shape \(2, 2\)"):
        rt.flash_attn_func(q, q, q, alibi_slopes=torch.zeros(2, 2))
    with pytest.raises(ringattn.ArgumentError, match="softcap is -1.0"):
        rt.flash_attn_func(q, q, q, softcap=-1.0)
    with pytest.raises(ringattn.ArgumentError, match="k_cache has room for 3"):
        rt.flash_attn_with_kvcache(q, q.clone(), q.clone(), q, q, cache_seqlens=1)
    with pytest.raises(ringattn.UnsupportedError, match="v_cache is on device 'meta'"):
        rt.flash_attn_with_kvcache(q, q, q.to("meta"))
    with pytest.raises(ringattn.UnsupportedError, match="v is on device 'meta'"):
        rt.flash_attn_func(q, q, q.to("meta"))
    with pytest.raises(ringattn.ArgumentError, match="v is None"):
        rt.flash_attn_with_kvcache(q, q, q, q, cache_seqlens=0)


def test_varlen_rows_outside_of_all_sequences():
    """They see nothing and are not seen, as with a padded end of a batch."""
    q, k = torch.randn(9, 4, 8), torch.randn(11, 2, 8, requires_grad=True)
    of_q, of_k = torch.tensor([1, 4, 7], dtype=torch.int32), torch.tensor([2, 5, 9], dtype=torch.int32)
    out = rt.flash_attn_varlen_func(q, k, k, of_q, of_k, 3, 4, causal=True)
    inside = rt.flash_attn_varlen_func(q[1:7], k[2:9], k[2:9], of_q - 1, of_k - 2, 3, 4, causal=True)
    assert close(out[1:7], inside) and out[:1].eq(0).all() and out[7:].eq(0).all()
    out.sum().backward()
    assert k.grad[:2].eq(0).all() and k.grad[9:].eq(0).all() and k.grad[2:9].ne(0).any()
    nothing = torch.zeros(1, dtype=torch.int32)
    assert rt.flash_attn_varlen_func(q[:0], k[:0], k[:0], nothing, nothing, 0, 0).shape == (0, 4, 8)


def test_mistakes_in_shapes_are_refused_by_name():
    q, k, ends = torch.randn(2, 1, 4, 8), torch.randn(2, 9, 2, 8), torch.tensor([0, 3, 7])
    new, before = torch.randn(2, 1, 2, 8), k.clone()
    for message, settings in {
        r"cache_seqlens has shape \(1,\)": dict(cache_seqlens=torch.tensor([3])),
        r"cache_leftpad has shape \(3,\)": dict(cache_seqlens=3, cache_leftpad=torch.zeros(3)),
        r"k has shape \(1, 1, 2, 8\)": dict(k=new[:1], v=new, cache_seqlens=3),
        r"v has shape \(2, 1, 1, 8\)": dict(k=new, v=new[:, :, :1], cache_seqlens=3),
        "rotary_sin is None": dict(k=new, v=new, cache_seqlens=3, rotary_cos=torch.ones(9, 4)),
    }.items():
        with pytest.raises(ringattn.ArgumentError, match=message):
            rt.flash_attn_with_kvcache(q, k, k, **settings)
    assert torch.equal(k, before)
    with pytest.raises(ringattn.ArgumentError, match=r"cu_seqlens_q has shape \(3,\), cu_seqlens_k \(2,\)"):
        rt.flash_attn_varlen_func(torch.randn(7, 4, 8), k[0, :7], k[0, :7], ends, ends[:2], 4, 4)
