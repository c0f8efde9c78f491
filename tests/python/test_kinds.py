# SPDX-License-Identifier: Apache-2.0
"""Arrays of other kinds than NumPy's: the buffer protocol, DLPack, and what cannot be taken."""

import array
import sys

import naive
import numpy as np
import pytest

import ringattn

Q, K, V = (naive.normal(1, 6, 2, 8, seed=seed) for seed in range(3))
EXPECTED = ringattn.attention(Q, K, V, pattern="causal")


class Exporter:
    """An array that speaks DLPack and nothing else, of a library without a module."""

    def __init__(self, values, device=1):
        self.values, self.device = values, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **settings):
        return self.values.__dlpack__(**settings)


def test_buffers():
    buffers = [memoryview(x) for x in (Q, K, V)]
    got = ringattn.attention(*buffers, pattern="causal")
    assert type(got) is np.ndarray and (got == EXPECTED).all()
    flat = memoryview(array.array("f", Q.ravel().tolist())).cast("B").cast("f", Q.shape)
    assert (ringattn.attention(flat, K, V, pattern="causal") == EXPECTED).all()
    store = bytearray(EXPECTED.nbytes)
    out = memoryview(store).cast("f", EXPECTED.shape)
    assert ringattn.attention(Q, K, V, pattern="causal", out=out) is out
    assert (np.frombuffer(store, np.float32) == EXPECTED.ravel()).all()


def test_dlpack_with_strides():
    got = ringattn.attention(Exporter(Q[:, ::-1]), Exporter(K), Exporter(V))
    assert (np.asarray(got) == ringattn.attention(Q[:, ::-1].copy(), K, V)).all()


def test_dlpack_of_another_device():
    with pytest.raises(ringattn.UnsupportedError, match=r"k is on DLPack device 2:0: ringattn computes on the CPU"):
        ringattn.attention(Q, Exporter(K, device=2), V)


def test_subclasses_of_numpy_arrays():
    class Mine(np.ndarray):
        pass

    assert (ringattn.attention(Q.view(Mine), K, V, pattern="causal") == EXPECTED).all()


def test_arrays_that_cannot_be_written():
    out = np.empty_like(EXPECTED)
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ringattn.ArgumentError, match="out is read-only"):
            ringattn.attention(Q, K, V, out=out)
    frozen = Q.copy()
    frozen.flags.writeable = False
    assert (ringattn.attention(frozen, K, V, pattern="causal") == EXPECTED).all()
    with pytest.raises(ringattn.ArgumentError, match="out is read-only"):
        ringattn.attention(Q, K, V, out=Exporter(np.empty_like(EXPECTED)))


@pytest.mark.parametrize(
    "bad, message",
    [
        (Q.astype(np.float64), "q is float64: expected float32, float16, bfloat16"),
        (Q.astype(np.int32), "q is int32: expected float32, float16, bfloat16"),
        (Q.astype(">f4"), "q has dtype >f4"),
        (Q[0], r"q has shape \[6, 2, 8\]: expected 4 dimensions"),
        (Q[0, 0, 0, 0], "q"),
        ([[1.0]], "q is a list: expected an array with DLPack or the buffer protocol"),
        (None, "q is a NoneType"),
    ],
)
def test_wrong_arrays(bad, message):
    with pytest.raises(ringattn.ArgumentError, match=message):
        ringattn.attention(bad, K, V)


def test_unaligned_arrays_are_refused():
    raw = np.zeros(Q.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(Q.shape)
    with pytest.raises(ringattn.ArgumentError):
        ringattn.attention(unaligned, K, V)


def test_strides_that_are_no_multiples_of_an_element():
    """A field of a structured array: read where it is, or refused by name."""
    good = np.zeros(Q.shape, [("x", "f4"), ("y", "u2"), ("z", "u2")])
    bad = np.zeros(Q.shape, [("x", "f4"), ("y", "u2")])
    good["x"] = bad["x"] = Q
    assert (ringattn.attention(good["x"], K, V, pattern="causal") == EXPECTED).all()
    with pytest.raises(ringattn.ArgumentError, match=r"q has strides of \[.*, 6\] bytes: expected multiples of its 4"):
        ringattn.attention(bad["x"], K, V)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_integers_of_any_size(dtype):
    documents, lengths = np.array([2, 4], dtype), np.array([[1, 5]], dtype)
    for settings, same in (
        (dict(documents=documents), dict(documents=[2, 4])),
        (dict(lengths=lengths), dict(lengths=[[1, 5]])),
    ):
        assert (ringattn.attention(Q, K, V, **settings) == ringattn.attention(Q, K, V, **same)).all()


def test_addresses_of_numpy_arrays():
    """The quick way to an array's pointer and NumPy's own agree; the quick one is used where it is right."""
    from ringattn import _attention

    assert _attention._has_pointer_behind_head() == (sys.implementation.name == "cpython")
    for x in (Q, Q[:, ::-1], Q[..., 3:], Q[:0], np.broadcast_to(Q, (3, *Q.shape)), np.asfortranarray(Q)):
        assert _attention._slow_numpy_address(x) == x.ctypes.data
        if sys.implementation.name == "cpython":
            assert _attention._numpy_address(x) == x.ctypes.data
