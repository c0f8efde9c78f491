# SPDX-License-Identifier: Apache-2.0
"""JAX arrays on the CPU: read in place through DLPack, and returned as JAX arrays."""

import naive
import numpy as np
import pytest

import ringattn

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_agrees(dtype):
    q, k, v = (jax.numpy.asarray(naive.normal(2, 7, 4, 8, seed=seed), dtype) for seed in range(3))
    out, lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array)
    assert out.dtype == q.dtype and lse.dtype == np.float32
    expected, expected_lse = naive.attention(np.asarray(q), np.asarray(k), np.asarray(v), naive.causal(7, 7))
    assert np.abs(naive.f64(out) - expected).max() < {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    assert np.abs(naive.f64(lse) - expected_lse).max() < 1e-5
    mine = jax.nn.dot_product_attention(*(x.astype("float32") for x in (q, k, v)), is_causal=True)
    assert np.abs(naive.f64(mine) - expected).max() < 1e-5
    gradients = ringattn.attention_backward(out, q, k, v, out, lse, pattern="causal")
    assert all(isinstance(x, jax.Array) and x.dtype == q.dtype for x in gradients)


def test_out_is_refused():
    q = jax.numpy.ones((1, 2, 1, 4))
    with pytest.raises(ringattn.ArgumentError, match="out is read-only"):
        ringattn.attention(q, q, q, out=jax.numpy.ones((1, 2, 1, 4)))


def test_integers_of_32_bits():
    """JAX has no others unless it is told to."""
    q = jax.numpy.asarray(naive.normal(2, 7, 2, 8))
    lengths = jax.numpy.array([[0, 3], [1, 7]])
    assert lengths.dtype == np.int32
    same = ringattn.attention(q, q, q, lengths=[[0, 3], [1, 7]])
    assert (ringattn.attention(q, q, q, lengths=lengths) == same).all()
