# SPDX-License-Identifier: Apache-2.0
"""PyTorch tensors in ringattn.attention itself: read where they are, returned as tensors, refused on other devices."""

import warnings

import naive
import numpy as np
import pytest

import ringattn

torch = pytest.importorskip("torch")

Q, K, V = (naive.normal(2, 7, 4, 8, seed=seed) for seed in range(3))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_agrees(name):
    q, k, v = (torch.from_numpy(x).to(getattr(torch, name)) for x in (Q, K, V))
    expected, expected_lse = naive.attention(*(x.double().numpy() for x in (q, k, v)), naive.causal(7, 7))
    for _ in range(3):
        out, lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
        assert type(out) is torch.Tensor and out.dtype == q.dtype and lse.dtype == torch.float32
        error = np.abs(out.double().numpy() - expected).max()
        assert error < {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[name]
        assert np.abs(lse.numpy() - expected_lse).max() < 1e-5
    gradients = ringattn.attention_backward(out, q, k, v, out, lse, pattern="causal")
    assert all(type(x) is torch.Tensor and x.dtype == q.dtype for x in gradients)


def test_strides_and_out():
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    expected = ringattn.attention(Q, K, V)
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert (ringattn.attention(*swapped).numpy() == expected).all()
    out = torch.empty_like(q)
    for _ in range(2):
        out.zero_()
        assert ringattn.attention(q, k, v, out=out) is out and (out.numpy() == expected).all()


def test_kinds_mix():
    got = ringattn.attention(torch.from_numpy(Q), K, V, mask=torch.ones(7, 7, dtype=torch.bool))
    same = ringattn.attention(Q, K, V, mask=np.ones((7, 7), bool))
    assert type(got) is torch.Tensor and (got.numpy() == same).all()
    assert type(ringattn.attention(Q, torch.from_numpy(K), V)) is np.ndarray
    assert type(ringattn.reference(torch.from_numpy(Q).double(), torch.from_numpy(K), V)) is torch.Tensor


def test_other_devices_and_layouts_are_refused():
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    ringattn.attention(q, k, v)
    with pytest.raises(ringattn.UnsupportedError, match=r"k is on device meta: ringattn computes on the CPU"):
        ringattn.attention(q, k.to("meta"), v)
    with pytest.raises(ringattn.UnsupportedError, match="q has layout torch.sparse_coo: expected a dense tensor"):
        ringattn.attention(q.to_sparse(), k, v)
    with pytest.raises(ringattn.UnsupportedError, match="v has layout torch.sparse_csr"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls that layout a beta
        ringattn.attention(q, k, v.to_sparse_csr(dense_dim=2))
    negated = torch.zeros(2, 7, 4, 8, dtype=torch.complex64).conj().imag
    with pytest.raises(ringattn.UnsupportedError, match=r"q is a negated view: use q.resolve_neg\(\)"):
        ringattn.attention(negated, k, v)
    with pytest.raises(ringattn.ArgumentError, match="q is int32: expected float32"):
        ringattn.attention(q.int(), k, v)


def test_a_gradient_is_not_lost_silently():
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    same = ringattn.attention(q, k, v)
    k.requires_grad_()
    with pytest.raises(ringattn.UnsupportedError, match="k requires a gradient, and ringattn.attention records none"):
        ringattn.attention(q, k, v)
    with pytest.raises(ringattn.UnsupportedError, match="bias requires a gradient"):
        ringattn.attention(q, q, v, bias=torch.zeros(7, 7, requires_grad=True))
    with pytest.raises(ringattn.UnsupportedError, match="k requires a gradient"):
        ringattn.attention(q, k, v, simulate=2)
    with torch.no_grad():
        assert torch.equal(ringattn.attention(q, k, v), same)
