# SPDX-License-Identifier: Apache-2.0
"""What is refused, by which exception, and with which values; exceptions survive pickling."""

import copy
import pickle

import naive
import numpy as np
import pytest

import ringattn

Q, K, V = (naive.normal(2, 6, 4, 8, seed=seed) for seed in range(3))


@pytest.mark.parametrize(
    "settings, kind, message",
    [
        (dict(pattern="caused"), ringattn.ArgumentError, "caused"),
        (dict(pattern="window:x"), ringattn.ArgumentError, "window"),
        (dict(pattern=3), ringattn.ArgumentError, "pattern is 3: expected a text"),
        (dict(pattern=["causal"]), ringattn.ArgumentError, r"pattern is \['causal'\]: expected a text"),
        (dict(pattern="causal\0+window:1,1"), ringattn.ArgumentError, "pattern is 'causal.x00"),
        (dict(scores=b"alibi"), ringattn.ArgumentError, "scores is b'alibi': expected a text"),
        (dict(strategy="broadcast"), ringattn.ArgumentError, 'strategy "broadcast" and order "contiguous" are for ranks'),
        (dict(order="zigzag"), ringattn.ArgumentError, "give simulate=R"),
        (dict(scores="softcap:0"), ringattn.ArgumentError, "softcap"),
        (dict(scale=float("inf")), ringattn.ArgumentError, "scale"),
        (dict(layout="sbhd"), ringattn.ArgumentError, 'layout "sbhd" is unknown: expected one of bshd'),
        (dict(kernel="sse"), ringattn.ArgumentError, 'kernel "sse" is unknown'),
        (dict(threads=-1), ringattn.ArgumentError, "-1"),
        (dict(mask=np.ones((6, 6))), ringattn.ArgumentError, "mask is float64: expected bool"),
        (dict(mask=np.ones((5, 6), bool)), ringattn.ArgumentError, "mask"),
        (dict(mask=np.ones(6, bool)), ringattn.ArgumentError, r"mask has shape \[6\]"),
        (dict(bias=np.ones((6, 5), np.float32)), ringattn.ArgumentError, "bias"),
        (dict(slopes=np.ones(3, np.float32)), ringattn.ArgumentError, "3"),
        (dict(sinks=np.ones((4, 1), np.float32)), ringattn.ArgumentError, r"sinks has shape \[4, 1\]: expected \[4\]"),
        (dict(table=np.ones((4, 4), np.float32)), ringattn.ArgumentError, "4"),
        (dict(lengths=[[0, 3]]), ringattn.ArgumentError, "lengths"),
        (dict(lengths=[[0, 3], [0, 99]]), ringattn.ArgumentError, "99"),
        (dict(lengths=np.zeros((2, 2), np.float32)), ringattn.ArgumentError, "lengths has dtype float32: expected int64"),
        (dict(documents=[2.5, 3.5]), ringattn.ArgumentError, "documents has dtype float64: expected int64"),
        (dict(mask=np.ones((6, 6), np.int32)), ringattn.ArgumentError, "mask is int32: expected bool"),
        (dict(sinks=np.ones(4, np.int32)), ringattn.ArgumentError, "sinks is int32: expected float32"),
        (dict(documents=[3, 2]), ringattn.ArgumentError, "5"),
        (dict(pattern="mask:@/no/such/file.npy"), ringattn.FileError, "/no/such/file.npy"),
        (dict(memory=10), ringattn.BudgetError, "more than memory=10 allows"),
        (dict(out=np.empty((2, 6, 4, 7), np.float32)), ringattn.ArgumentError, "7"),
        (dict(out=Q), ringattn.ArgumentError, "memory"),
    ],
)
def test_settings(settings, kind, message):
    for _ in range(2):
        with pytest.raises(kind, match=message):
            ringattn.attention(Q, K, V, **settings)


@pytest.mark.parametrize(
    "k, v, message",
    [
        (K[:1], V, "q has a batch of 2, k of 1: expected the same"),
        (K, V[:1], "q has a batch of 2, v of 1"),
        (K[:, :5], V, "k has 5 keys of 4 heads, v has 6 of 4: expected the same"),
        (K[:, :, :2], V, "k has 6 keys of 2 heads, v has 6 of 4"),
        (K[..., :5], V, "q has a head dim of 8, k of 5: expected the same"),
        (K[:, :, :3], V[:, :, :3], "3"),
    ],
)
def test_shapes(k, v, message):
    with pytest.raises(ringattn.ArgumentError, match=message):
        ringattn.attention(Q, k, v)


def test_masked_arrays():
    """Their masks would be ignored."""
    hidden = np.ma.masked_array(K, mask=K > 0)
    with pytest.raises(ringattn.UnsupportedError, match="k is a masked array"):
        ringattn.attention(Q, hidden, V)


def test_backward():
    out, lse = ringattn.attention(Q, K, V, return_lse=True)
    with pytest.raises(ringattn.ArgumentError, match=r"lse has shape \[2, 6, 4, 8\]: expected \[batch, heads, q_len\]"):
        ringattn.attention_backward(out, Q, K, V, out, out)
    with pytest.raises(ringattn.ArgumentError):
        ringattn.attention_backward(out[:, :5], Q, K, V, out, lse)
    with pytest.raises(ringattn.ArgumentError, match='array_gradients names "bias"'):
        ringattn.attention_backward(out, Q, K, V, out, lse, array_gradients=("bias",))
    for needs in ((True,), (True, True, True, True)):
        with pytest.raises(ringattn.ArgumentError, match="needs is .*: expected three truth values"):
            ringattn.attention_backward(out, Q, K, V, out, lse, needs=needs)
    with pytest.raises(ringattn.BudgetError):
        ringattn.attention_backward(out, Q, K, V, out, lse, memory=1)


def test_a_budget_that_is_enough():
    needed = ringattn.plan(Q, K, V).peak_bytes
    ringattn.attention(Q, K, V, memory=needed)
    with pytest.raises(ringattn.BudgetError, match=rf"needs .* \({needed} bytes\) beyond the tensors, 1 bytes more"):
        ringattn.attention(Q, K, V, memory=needed - 1)


def test_classes():
    for kind, base in [
        (ringattn.ArgumentError, ValueError),
        (ringattn.UnsupportedError, NotImplementedError),
        (ringattn.OutOfMemoryError, MemoryError),
        (ringattn.FileError, OSError),
        (ringattn.FormatError, ValueError),
        (ringattn.InternalError, RuntimeError),
        (ringattn.DeadlineError, TimeoutError),
        (ringattn.PeerError, RuntimeError),
        (ringattn.BudgetError, MemoryError),
        (ringattn.CancelledError, Exception),
    ]:
        assert issubclass(kind, base) and issubclass(kind, ringattn.Error)
        error = kind("a message with 3 values")
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(twin) is kind and str(twin) == str(error) and twin.status == error.status


def test_an_error_of_the_library_can_be_pickled():
    with pytest.raises(ringattn.FileError) as caught:
        ringattn.attention(Q, K, V, pattern="mask:@/no/such/file.npy")
    twin = pickle.loads(pickle.dumps(caught.value))
    assert str(twin) == str(caught.value) and "/no/such/file.npy" in str(twin) and twin.status == 4


def test_plan_and_show():
    with pytest.raises(ringattn.ArgumentError, match="heads is missing"):
        ringattn.plan(length=5, dim=8)
    with pytest.raises(ringattn.ArgumentError, match="some of q, k and v are missing"):
        ringattn.plan(Q, K)
    with pytest.raises(ringattn.ArgumentError, match="caused"):
        ringattn.show("caused", 4)
    with pytest.raises(ringattn.ArgumentError, match="length 0"):
        ringattn.show("causal", 0)
    with pytest.raises(ringattn.ArgumentError, match="llama"):
        ringattn.preset("no such model")
