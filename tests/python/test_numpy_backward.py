# SPDX-License-Identifier: Apache-2.0
"""attention_backward against NumPy float64 and against the oracle."""

import ml_dtypes
import naive
import numpy as np
import pytest

import ringattn

TOLERANCE = {np.float32: 1e-5, np.float16: 2e-2, ml_dtypes.bfloat16: 0.15}
SHAPES = [(1, 1, 1, 1, 1, 1, 1), (2, 7, 13, 6, 2, 17, 5), (1, 70, 131, 4, 1, 33, 64), (2, 33, 31, 4, 4, 8, 8)]


def problem(shape, dtype=np.float32):
    batch, q_len, kv_len, heads, kv_heads, dim, value_dim = shape
    sizes = ((q_len, heads, dim), (kv_len, kv_heads, dim), (kv_len, kv_heads, value_dim), (q_len, heads, value_dim))
    return [naive.normal(batch, *size, seed=seed, dtype=dtype) for seed, size in enumerate(sizes)]


def near(got, expected, tolerance):
    for one, other in zip(got, expected):
        assert one.shape == other.shape
        assert np.abs(naive.f64(one) - naive.f64(other)).max(initial=0) <= tolerance


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees(shape, dtype):
    q, k, v, d_out = problem(shape, dtype)
    out, lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    got = ringattn.attention_backward(d_out, q, k, v, out, lse, pattern="causal")
    expected = naive.backward(d_out, q, k, v, naive.causal(*shape[1:3]))
    assert all(x.dtype == dtype for x in got)
    near(got, expected, TOLERANCE[dtype])
    oracle = ringattn.reference_backward(d_out, q, k, v, pattern="causal")
    near(oracle, expected, 1e-12)


def test_gradient_by_lse_and_layout():
    q, k, v, d_out = problem(SHAPES[1])
    d_lse = naive.normal(2, 6, 7, seed=9)
    expected = naive.backward(d_out, q, k, v, d_lse=d_lse)
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    near(ringattn.attention_backward(d_out, q, k, v, out, lse, d_lse=d_lse), expected, 1e-5)
    swap = lambda x: x.transpose(0, 2, 1, 3)
    got = ringattn.attention_backward(*map(swap, (d_out, q, k, v, out)), lse, d_lse=d_lse, layout="bhsd")
    near([swap(x) for x in got], expected, 1e-5)
    oracle = ringattn.reference_backward(*map(swap, (d_out, q, k, v)), d_lse=d_lse, layout="bhsd")
    near([swap(x) for x in oracle], expected, 1e-12)


def test_needs_and_given_arrays():
    q, k, v, d_out = problem(SHAPES[1])
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    whole = ringattn.attention_backward(d_out, q, k, v, out, lse)
    some = ringattn.attention_backward(d_out, q, k, v, out, lse, needs=(False, True, False))
    assert some[0] is None and some[2] is None and (some[1] == whole[1]).all()
    assert ringattn.attention_backward(d_out, q, k, v, out, lse, needs=(False,) * 3) == (None, None, None)
    mine = np.empty_like(k)
    got = ringattn.attention_backward(d_out, q, k, v, out, lse, d_k=mine)
    assert got[1] is mine and (mine == whole[1]).all()


def test_gradients_of_arrays():
    shape = (2, 7, 9, 4, 2, 8, 8)
    q, k, v, d_out = problem(shape)
    arrays = dict(
        bias=naive.normal(1, 4, 7, 9, seed=11),
        slopes=np.linspace(0.1, 0.4, 4, dtype=np.float32),
        table=naive.normal(4, 5, seed=12),
        sinks=naive.normal(4, seed=13),
    )
    out, lse = ringattn.attention(q, k, v, return_lse=True, **arrays)
    *got, found = ringattn.attention_backward(d_out, q, k, v, out, lse, array_gradients=tuple(arrays), **arrays)
    near(got, ringattn.reference_backward(d_out, q, k, v, **arrays), 1e-5)

    def loss(name, place, step):
        moved = {key: array.astype(np.float32) for key, array in arrays.items()}
        moved[name] = moved[name].copy()
        moved[name][place] += step
        return (ringattn.reference(q, k, v, **moved) * d_out).sum()

    for name, array in arrays.items():
        assert found[name].shape == array.shape and found[name].dtype == np.float32
        place = tuple(size // 2 for size in array.shape)
        slope = (loss(name, place, 1 / 128) - loss(name, place, -1 / 128)) * 64
        assert abs(slope - found[name][place]) < 2e-3 * (1 + abs(slope))


def test_dropout_drops_the_same_weights():
    q, k, v, d_out = problem((1, 20, 20, 2, 2, 8, 8))
    settings = dict(scores="dropout:0.5:seed=7")
    out, lse = ringattn.attention(q, k, v, return_lse=True, **settings)
    got = ringattn.attention_backward(d_out, q, k, v, out, lse, **settings)
    near(got, ringattn.reference_backward(d_out, q, k, v, **settings), 1e-5)


def test_empty():
    q, k, v, d_out = problem((1, 3, 0, 2, 2, 4, 4))
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    d_q, d_k, d_v = ringattn.attention_backward(d_out, q, k, v, out, lse)
    assert (d_q == 0).all() and d_k.shape == k.shape and d_v.shape == v.shape
