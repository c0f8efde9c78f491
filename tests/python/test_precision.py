# SPDX-License-Identifier: Apache-2.0
"""Products of bfloat16: taken where all is bfloat16, asked for by name, refused elsewhere."""

import ml_dtypes
import naive
import numpy as np
import pytest

import ringattn

BF16 = ml_dtypes.bfloat16
HAS_PRODUCTS = "avx512bf16" in ringattn.info().kernels


def three(dtype):
    return [naive.normal(1, 90, 2, 40, seed=seed, dtype=dtype) for seed in (1, 2, 3)]


@pytest.mark.skipif(not HAS_PRODUCTS, reason="this processor has no products of bfloat16")
def test_bfloat16_is_fast_by_default():
    q, k, v = three(BF16)
    usual, lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    fast = ringattn.attention(q, k, v, pattern="causal", kernel="fast")
    assert np.array_equal(usual.view(np.uint16), fast.view(np.uint16))
    exact, exact_lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True, kernel="exact")
    assert not np.array_equal(usual.view(np.uint16), exact.view(np.uint16))
    assert np.abs(naive.f64(usual) - naive.f64(exact)).max() < 2e-2
    assert np.abs(lse - exact_lse).max() < 2e-5
    d_out = naive.normal(1, 90, 2, 40, seed=4, dtype=BF16)
    for kernel in (None, "fast", "avx512bf16"):
        gradients = ringattn.attention_backward(d_out, q, k, v, exact, exact_lse, pattern="causal", kernel=kernel)
        expected = ringattn.attention_backward(d_out, q, k, v, exact, exact_lse, pattern="causal", kernel="exact")
        for ours, theirs in zip(gradients, expected):
            assert np.abs(naive.f64(ours) - naive.f64(theirs)).max() < 0.1


def test_fast_is_refused_by_name():
    q, k, v = three(np.float32)
    if HAS_PRODUCTS:
        with pytest.raises(ringattn.ArgumentError, match="precision fast: query is float32: must be bfloat16"):
            ringattn.attention(q, k, v, kernel="fast")
    else:
        with pytest.raises(ringattn.UnsupportedError, match="precision fast: this processor has no products of bfloat16"):
            ringattn.attention(q, k, v, kernel="fast")
    with pytest.raises(ringattn.ArgumentError, match='kernel "slow" is unknown: expected auto, exact, fast'):
        ringattn.attention(q, k, v, kernel="slow")


def test_exact_is_float32():
    q, k, v = three(np.float32)
    assert np.array_equal(ringattn.attention(q, k, v, kernel="exact"), ringattn.attention(q, k, v))
