# SPDX-License-Identifier: Apache-2.0
"""Caches from Python: pages and 8 bits against the same keys and values in one piece."""

import naive
import numpy as np
import pytest

import ringattn


def paged(rows, size, seed):
    """Rows [batch, keys, heads, dim] in pages, and the table."""
    batch, keys, heads, dim = rows.shape
    count = -(-keys // size)
    table = np.random.default_rng(seed).permutation(batch * count + 3)[: batch * count].astype(np.int32)
    padded = np.zeros((batch, count * size, heads, dim), rows.dtype)
    padded[:, :keys] = rows
    pool = np.full((batch * count + 3, size, heads, dim), 77, rows.dtype)
    pool[table] = padded.reshape(batch * count, size, heads, dim)
    return pool, table.reshape(batch, count)


@pytest.mark.parametrize("size", [1, 5, 16, 64])
@pytest.mark.parametrize("q_len", [1, 70])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_pages_have_the_bits_of_one_piece(size, q_len, layout):
    q, k, v = (naive.normal(2, n, h, 24, seed=s) for s, (n, h) in enumerate([(q_len, 4), (130, 2), (130, 2)]))
    expected, expected_lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    (k_pool, table), (v_pool, _) = paged(k, size, 9), paged(v, size, 9)
    if layout == "bhsd":
        q, k_pool, v_pool = (x.transpose(0, 2, 1, 3) for x in (q, k_pool, v_pool))
    out, lse = ringattn.attention(q, k_pool, v_pool, pattern="causal", layout=layout, page_table=table, kv_len=130,
                                  return_lse=True)
    out = out.transpose(0, 2, 1, 3) if layout == "bhsd" else out
    assert (out == expected).all() and (lse == expected_lse).all()


def test_8_bits():
    q, k, v = (naive.normal(2, n, h, 24, seed=s) for s, (n, h) in enumerate([(1, 4), (90, 2), (90, 2)]))
    (k8, k_scale), (v8, v_scale) = ringattn.quantize(k), ringattn.quantize(v)
    assert k8.dtype == np.int8 and k_scale.shape == (2, 90, 2, 1)
    assert (np.abs(k8 * k_scale.astype(np.float64) - k) <= k_scale * 0.5000001).all()
    out = ringattn.attention(q, k8, v8, k_scale=k_scale, v_scale=v_scale[..., 0])
    wide = [x.astype(np.float64) * s for x, s in ((k8, k_scale), (v8, v_scale))]
    assert np.abs(out - ringattn.reference(q.astype(np.float64), *wide)).max() < 2e-6
    pools = [paged(x, 16, 3) for x in (k8, v8, k_scale, v_scale)]
    again = ringattn.attention(q, pools[0][0], pools[1][0], k_scale=pools[2][0], v_scale=pools[3][0],
                               page_table=pools[0][1], kv_len=90)
    assert (again == out).all()


def test_quantize_adds_rows_in_place():
    cache, scales = np.zeros((1, 8, 2, 4), np.int8), np.zeros((1, 8, 2, 1), np.float32)
    rows = naive.normal(1, 3, 2, 4, seed=4)
    ringattn.quantize(rows, data=cache[:, 2:5], scale=scales[:, 2:5])
    assert (cache[:, 2:5] == ringattn.quantize(rows)[0]).all() and not cache[:, 5:].any() and not scales[:, :2].any()


def test_refusals():
    q = k = naive.normal(1, 4, 2, 8, seed=1)
    table = np.zeros((1, 1), np.int32)
    with pytest.raises(ringattn.ArgumentError, match=r"entry \[0, 0\] is 1: must be 0..0"):
        ringattn.attention(q, k, k, page_table=table + 1)
    with pytest.raises(ringattn.ArgumentError, match="page_table is int64"):
        ringattn.attention(q, k, k, page_table=table.astype(np.int64))
    with pytest.raises(ringattn.ArgumentError, match="kv_len is 3 and page_table is None"):
        ringattn.attention(q, k, k, kv_len=3)
    with pytest.raises(ringattn.ArgumentError, match="k_scale: scales are for int8"):
        ringattn.attention(q, k, k, k_scale=k[..., :1])
    with pytest.raises(ringattn.ArgumentError, match="k is int8"):
        ringattn.attention(q, k.astype(np.int8), k)
    with pytest.raises(ringattn.ArgumentError, match="simulate is 2"):
        ringattn.attention(q, k, k, page_table=table, simulate=2)
    with pytest.raises(ringattn.ArgumentError, match="is inf"):
        ringattn.quantize(np.array([[1, np.inf]], np.float32))
