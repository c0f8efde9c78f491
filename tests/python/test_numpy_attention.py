# SPDX-License-Identifier: Apache-2.0
"""attention against NumPy float64: shapes, dtypes, strides, layouts, arrays of patterns and scores, empty rows."""

import ml_dtypes
import naive
import numpy as np
import pytest

import ringattn

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float32: 2e-6, np.float16: 2e-3, BF16: 1.6e-2}


def three(batch, q_len, kv_len, heads, kv_heads, dim, value_dim, dtype=np.float32):
    return (
        naive.normal(batch, q_len, heads, dim, seed=1, dtype=dtype),
        naive.normal(batch, kv_len, kv_heads, dim, seed=2, dtype=dtype),
        naive.normal(batch, kv_len, kv_heads, value_dim, seed=3, dtype=dtype),
    )


def near(got, expected, tolerance):
    assert got.shape == expected.shape
    assert np.abs(naive.f64(got) - expected).max(initial=0) <= tolerance


SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 7, 13, 6, 2, 17, 5),
    (1, 129, 129, 3, 3, 64, 64),
    (3, 1, 300, 8, 1, 33, 128),
    (1, 65, 257, 2, 1, 80, 3),
    (2, 33, 31, 4, 4, 8, 8),
]


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_agrees(shape, dtype, pattern):
    q, k, v = three(*shape, dtype=dtype)
    out, lse = ringattn.attention(q, k, v, pattern=pattern, return_lse=True)
    expected, expected_lse = naive.attention(q, k, v, naive.causal(*shape[1:3]) if pattern == "causal" else None)
    assert out.dtype == dtype and lse.dtype == np.float32
    near(out, expected, TOLERANCE[dtype])
    seen = np.isfinite(expected_lse)
    assert (np.isneginf(lse) == ~seen).all()
    assert np.abs(lse[seen] - expected_lse[seen]).max(initial=0) < 1e-5


def test_rows_without_keys_are_zero():
    q, k, v = three(1, 9, 4, 2, 2, 8, 8)
    out, lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    assert (out[:, :5] == 0).all() and np.isneginf(lse[:, :, :5]).all()
    assert (out[:, 5:] != 0).any()


@pytest.mark.parametrize("shape", [(0, 3, 3, 1, 1, 4, 4), (1, 0, 3, 2, 1, 4, 4), (1, 3, 0, 2, 2, 4, 4)])
def test_sizes_of_zero(shape):
    q, k, v = three(*shape)
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    assert out.shape == (shape[0], shape[1], shape[3], shape[6]) and (out == 0).all()
    assert lse.shape == (shape[0], shape[3], shape[1]) and np.isneginf(lse).all()


def test_layouts():
    q, k, v = three(2, 7, 13, 6, 2, 17, 5)
    expected = ringattn.attention(q, k, v, pattern="causal")
    swap = lambda x: x.transpose(0, 2, 1, 3)
    got, lse = ringattn.attention(swap(q), swap(k), swap(v), pattern="causal", layout="bhsd", return_lse=True)
    assert got.shape == (2, 6, 7, 5) and lse.shape == (2, 6, 7)
    assert (swap(got) == expected).all()
    one, lse = ringattn.attention(q[1], k[1], v[1], pattern="causal", layout="shd", return_lse=True)
    assert (one == expected[1]).all() and lse.shape == (6, 7)
    other = ringattn.attention(swap(q)[1], swap(k)[1], swap(v)[1], pattern="causal", layout="hsd")
    assert (other.transpose(1, 0, 2) == expected[1]).all()


def test_strides_are_taken_as_they_are():
    q, k, v = three(2, 40, 50, 8, 4, 48, 32)
    a, b, c = q[:, ::-2, ::2, ::3], k[:, 5:, ::2, ::3], v[:, 5:, 1::2, ::-1]
    dense = ringattn.attention(a.copy(), b.copy(), c.copy(), pattern="causal")
    assert (ringattn.attention(a, b, c, pattern="causal") == dense).all()
    shared = np.broadcast_to(k[:1], k.shape)
    assert (ringattn.attention(q, shared, v) == ringattn.attention(q, shared.copy(), v)).all()


def test_out_and_lse_are_written_in_place():
    q, k, v = three(2, 7, 13, 6, 2, 17, 5)
    expected, expected_lse = ringattn.attention(q, k, v, return_lse=True)
    large, lse = np.full((2, 7, 12, 5), 9, np.float32), np.empty((2, 6, 7), np.float32)
    for _ in range(3):
        got = ringattn.attention(q, k, v, out=large[:, :, ::2], lse=lse, return_lse=True)
        assert got[0].base is large and got[1] is lse
        assert (large[:, :, ::2] == expected).all() and (lse == expected_lse).all()
        assert (large[:, :, 1::2] == 9).all()
    half = ringattn.attention(q, k, v, out=np.empty(expected.shape, np.float16))
    assert half.dtype == np.float16 and np.abs(half - expected).max() < 2e-3


def test_a_call_again_gives_the_same_and_a_new_array():
    q, k, v = three(2, 7, 13, 6, 2, 17, 5)
    first = ringattn.attention(q, k, v)
    kept = first.copy()
    second = ringattn.attention(q + 1, k, v)
    assert first is not second and (first == kept).all() and (second != kept).any()
    assert (ringattn.attention(q, k, v) == kept).all()


def test_mask():
    q, k, v = three(2, 7, 13, 6, 2, 17, 5)
    for shape in [(7, 13), (6, 7, 13), (2, 1, 7, 13), (2, 6, 7, 13), (2, 1, 1, 13)]:
        mask = np.random.default_rng(4).random(shape) < 0.4
        mask[..., 0, :] = False
        expected, _ = naive.attention(q, k, v, mask)
        near(ringattn.attention(q, k, v, mask=mask), expected, 2e-6)
        both = mask & naive.causal(7, 13)
        expected, _ = naive.attention(q, k, v, both)
        near(ringattn.attention(q, k, v, mask=mask, pattern="causal"), expected, 2e-6)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_bias_and_softcap(dtype):
    q, k, v = three(2, 7, 13, 6, 2, 17, 5)
    for shape in [(7, 13), (1, 6, 7, 13), (2, 1, 1, 13), (2, 6, 7, 13)]:
        bias = naive.normal(*shape, seed=5, dtype=dtype)
        expected, _ = naive.attention(q, k, v, bias=bias)
        near(ringattn.attention(q, k, v, bias=bias), expected, 2e-6)
    expected, _ = naive.attention(q, k, v, bias=bias, softcap=2.0)
    near(ringattn.attention(q, k, v, bias=bias, scores="softcap:2"), expected, 2e-6)


def test_slopes_table_and_sinks():
    q, k, v = three(1, 9, 9, 4, 4, 16, 16)
    distance = np.abs(np.arange(9)[:, None] - np.arange(9))
    slopes = np.linspace(0.1, 0.4, 4, dtype=np.float32)
    expected, _ = naive.attention(q, k, v, bias=-slopes[:, None, None] * distance)
    near(ringattn.attention(q, k, v, slopes=slopes), expected, 2e-6)
    table = naive.normal(4, 7, seed=6)
    entries = np.clip(np.arange(9) - np.arange(9)[:, None], -3, 3) + 3
    expected, _ = naive.attention(q, k, v, bias=table[:, entries])
    near(ringattn.attention(q, k, v, table=table), expected, 2e-6)
    sinks = naive.normal(4, seed=7)
    expected, expected_lse = naive.attention(q, k, v, naive.causal(9, 9), sinks=sinks)
    out, lse = ringattn.attention(q, k, v, sinks=sinks, pattern="causal", return_lse=True)
    near(out, expected, 2e-6)
    near(lse, expected_lse, 1e-5)


def test_lengths_and_documents():
    q, k, v = three(2, 6, 10, 2, 2, 8, 8)
    seen = np.zeros((2, 1, 1, 10), bool)
    seen[0, ..., 2:7] = seen[1, ..., 0:4] = True
    expected, _ = naive.attention(q, k, v, seen)
    for lengths in ([[2, 7], [0, 4]], np.array([[2, 7], [0, 4]])):
        near(ringattn.attention(q, k, v, lengths=lengths), expected, 2e-6)
    q, k, v = three(1, 10, 10, 2, 2, 8, 8)
    owner = np.repeat([0, 1, 2], [3, 5, 2])
    expected, _ = naive.attention(q, k, v, (owner[:, None] == owner) & naive.causal(10, 10))
    near(ringattn.attention(q, k, v, documents=[3, 5, 2], pattern="causal"), expected, 2e-6)
    q = naive.normal(1, 4, 2, 8, seed=8)
    owner_q = np.repeat([0, 1, 2], [1, 0, 3])
    owner_k = np.repeat([0, 1, 2], [5, 2, 3])
    expected, _ = naive.attention(q, k, v, owner_q[:, None] == owner_k)
    near(ringattn.attention(q, k, v, documents=[[1, 5], [0, 2], [3, 3]]), expected, 2e-6)


def test_files_are_read_anew(tmp_path):
    q, k, v = three(1, 4, 4, 2, 2, 8, 8)
    path = tmp_path / "mask.npy"
    for seed in range(3):
        mask = np.random.default_rng(seed).random((4, 4)) < 0.5
        np.save(path, mask)
        expected, _ = naive.attention(q, k, v, mask)
        near(ringattn.attention(q, k, v, pattern=f"mask:@{path}"), expected, 2e-6)


def test_positions():
    q, k, v = three(1, 4, 12, 2, 2, 8, 8)
    seen = np.arange(12) <= np.arange(4)[:, None] + 3
    expected, _ = naive.attention(q, k, v, seen)
    near(ringattn.attention(q, k, v, pattern="causal", query_position=3), expected, 2e-6)
    near(ringattn.attention(q, k, v, pattern="causal", query_position=103, key_position=100), expected, 2e-6)


def test_scale_threads_and_kernels():
    q, k, v = three(2, 70, 130, 6, 2, 17, 5)
    expected, _ = naive.attention(q, k, v, scale=-0.3)
    got = ringattn.attention(q, k, v, scale=-0.3)
    near(got, expected, 2e-6)
    for threads in (1, 2, 3):
        assert (ringattn.attention(q, k, v, scale=-0.3, threads=threads) == got).all()
    for kernel in set(ringattn.info().kernels) - {"avx512bf16"}:  # whose tensors are bfloat16
        near(ringattn.attention(q, k, v, scale=-0.3, kernel=kernel), expected, 2e-6)


def test_reference_in_float64():
    q, k, v = (x.astype(np.float64) for x in three(2, 7, 13, 6, 2, 17, 5))
    expected, expected_lse = naive.attention(q, k, v, naive.causal(7, 13))
    out, lse = ringattn.reference(q, k, v, pattern="causal", return_lse=True)
    assert out.dtype == lse.dtype == np.float64
    near(out, expected, 1e-13)
    near(lse, expected_lse, 1e-13)
    swapped = ringattn.reference(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), pattern="causal", layout="bhsd")
    assert (swapped.transpose(0, 2, 1, 3) == out).all()
