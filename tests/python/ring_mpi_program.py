# SPDX-License-Identifier: Apache-2.0
"""What each process of test_mpi_ring.py does: python ring_mpi_program.py check|stop|mistake."""
import itertools
import os
import signal
import sys

import numpy as np
import ringattn
from mpi4py import MPI

STRATEGIES = ("ring", "allgather", "broadcast")
ORDERS = ("contiguous", "zigzag", "striped")


def problem(length):
    random = np.random.default_rng(length)
    return [random.standard_normal((2, length, heads, 16)).astype(np.float32) for heads in (4, 2, 2, 4)]


def close(found, expected):
    return np.abs(found - expected).max() < 3e-5


def check(ring):
    """Forward and backward against one process."""
    q, k, v, d_out = problem(333)
    whole, whole_lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    expected = ringattn.attention_backward(d_out, q, k, v, whole, whole_lse, pattern="causal")
    for strategy, order in itertools.product(STRATEGIES, ORDERS):
        keywords = dict(pattern="causal", strategy=strategy, order=order)
        parts = [ring.split(x, order=order) for x in (q, k, v)]
        out, lse = ring.attention(*parts, return_lse=True, **keywords)
        found = ring.gather(out, order=order)
        assert close(found, whole)
        assert strategy != "broadcast" or (found == whole).all()
        gradients = ring.attention_backward(ring.split(d_out, order=order), *parts, out, lse, **keywords)
        assert all(close(ring.gather(a, order=order), b) for a, b in zip(gradients, expected))
        assert all(run.bytes_sent == run.planned_bytes_sent for run in ring.stats)


def stop(ring):
    """The last rank falls silent: the others say so within the deadline."""
    q, k, v, _ = problem(333)
    parts = [ring.split(x) for x in (q, k, v)]
    ring.attention(*parts)
    if ring.rank == ring.ranks - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        ring.attention(*parts, timeout=2)
    except (ringattn.DeadlineError, ringattn.PeerError) as found:
        print(type(found).__name__, found, flush=True)
        MPI.COMM_WORLD.Abort(3)


def mistake(ring):
    """A rank whose arguments are wrong is named on all ranks, and the ring goes on."""
    q, k, v, _ = problem(333)
    parts = [ring.split(x) for x in (q, k, v)]
    try:
        ring.attention(*parts, layout="bshd" if ring.rank else "sbhd", timeout=20)
    except ringattn.Error as found:
        assert "sbhd" in str(found)
    else:
        raise AssertionError("the layout is wrong")
    assert close(ring.gather(ring.attention(*parts)), ringattn.attention(q, k, v))


if __name__ == "__main__":
    task = {"check": check, "stop": stop, "mistake": mistake}[sys.argv[1]]
    with ringattn.ring(MPI.COMM_WORLD) as made:
        task(made)
        name = MPI.get_vendor()[0]
        if made.rank == 0:
            print(f"{sys.argv[1]} on {made.ranks} ranks of {name}: ok")
