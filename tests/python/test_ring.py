# SPDX-License-Identifier: Apache-2.0
"""Rings of virtual ranks and of processes over sockets, against one process."""
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ringattn
from ring_processes import run_ring

STRATEGIES = ("ring", "allgather", "broadcast")
ORDERS = ("contiguous", "zigzag", "striped")


def problem(length, heads=4, kv_heads=2, batch=2, dim=16, dtype=np.float32, kv_length=None):
    random = np.random.default_rng(length)
    shapes = ((length, heads), (kv_length or length, kv_heads), (kv_length or length, kv_heads), (length, heads))
    return [random.standard_normal((batch, rows, h, dim)).astype(dtype) for rows, h in shapes]


def close(found, expected, bound=3e-5):
    return np.abs(np.asarray(found, np.float64) - np.asarray(expected, np.float64)).max(initial=0) < bound


# ---- Rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [0, 1, 63, 64, 333, 1000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 20])
def test_rows_split_and_gather(order, length, ranks):
    x = np.arange(2 * length * 3).reshape(2, length, 3)
    parts = [ringattn.split(x, ranks, rank, order=order) for rank in range(ranks)]
    for rank, part in enumerate(parts):
        rows = ringattn.rows(length, ranks, rank, order)
        assert (np.diff(rows) > 0).all()
        assert (part == x[:, rows]).all()
    assert sorted(np.concatenate([ringattn.rows(length, ranks, r, order) for r in range(ranks)])) == list(range(length))
    assert (ringattn.gather(parts, order=order) == x).all()


def test_rows_refuse():
    with pytest.raises(ringattn.ArgumentError, match='order "spiral" is unknown: expected one of contiguous, zigzag'):
        ringattn.split(np.zeros((1, 10)), 2, 0, order="spiral")
    with pytest.raises(ringattn.ArgumentError, match=r"rank 2: expected 0\.\.1"):
        ringattn.rows(10, 2, 2)
    with pytest.raises(ringattn.ArgumentError, match=r"parts have \[3, 4\] rows: order zigzag gives 2 ranks \[7, 0\]"):
        ringattn.gather([np.zeros((1, 3)), np.zeros((1, 4))], order="zigzag")


# ---- Virtual ranks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_virtual_ranks(strategy, order):
    q, k, v, d_out = problem(333)
    keywords = dict(pattern="causal", scores="softcap:30")
    out, lse = ringattn.attention(q, k, v, return_lse=True, **keywords)
    gradients = ringattn.attention_backward(d_out, q, k, v, out, lse, **keywords)
    for ranks in (1, 2, 7):
        with ringattn.ring(simulate=ranks) as ring:
            keywords.update(strategy=strategy, order=order)
            ours, our_lse = ring.attention(q, k, v, return_lse=True, **keywords)
            assert close(ours, out) and close(our_lse, lse)
            if strategy == "broadcast":
                assert (ours == out).all()
            assert [run.rank for run in ring.stats] == list(range(ranks))
            for run in ring.stats:
                assert (run.hops, run.bytes_sent) == (run.planned_hops, run.planned_bytes_sent)
                assert 0 < run.peak_bytes <= run.planned_peak_bytes
            found = ring.attention_backward(d_out, q, k, v, ours, our_lse, **keywords)
            assert all(close(a, b) for a, b in zip(found, gradients))


def test_simulate():
    q, k, v, _ = problem(200)
    lse = np.empty((2, 4, 200), np.float32)
    whole, whole_lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    out, same = ringattn.attention(
        q, k, v, pattern="causal", simulate=3, strategy="broadcast", order="striped", return_lse=True, lse=lse
    )
    assert (out == whole).all() and same is lse and (lse == whole_lse).all()


def test_virtual_ranks_with_arrays():
    q, k, v, d_out = problem(70)
    bias = np.random.default_rng(5).standard_normal((1, 4, 70, 70)).astype(np.float32)
    out, lse = ringattn.attention(q, k, v, bias=bias, return_lse=True)
    expected = ringattn.attention_backward(d_out, q, k, v, out, lse, bias=bias, array_gradients=("bias",))
    with ringattn.ring(simulate=3) as ring:
        found = ring.attention_backward(d_out, q, k, v, out, lse, bias=bias, array_gradients=("bias",))
    assert all(close(a, b) for a, b in zip(found[:3], expected[:3]))
    assert close(found[3]["bias"], expected[3]["bias"])


def test_needs_and_progress():
    q, k, v, d_out = problem(200)
    out, lse = ringattn.attention(q, k, v, return_lse=True)
    seen = []
    with ringattn.ring(simulate=2) as ring:
        ring.attention(q, k, v, progress=lambda done, total: seen.append(done / total))
        assert seen and seen[-1] == 1
        with pytest.raises(ringattn.CancelledError):
            ring.attention(q, k, v, progress=lambda done, total: True)
        d_q, d_k, d_v = ring.attention_backward(d_out, q, k, v, out, lse, needs=(False, True, False))
        assert d_q is None and d_v is None and d_k.shape == k.shape


def test_refusals():
    q, k, v, _ = problem(100)
    with ringattn.ring(simulate=2) as ring:
        with pytest.raises(ringattn.ArgumentError, match="no statistics before the first run"):
            _ = ring.stats
        with pytest.raises(ringattn.ArgumentError, match='strategy "star" is unknown: expected one of ring, allgather'):
            ring.attention(q, k, v, strategy="star")
        with pytest.raises(ringattn.BudgetError, match="a ring of 2 needs"):
            ring.attention(q, k, v, memory=10)
        with pytest.raises(ringattn.ArgumentError, match="gather is for rings of processes"):
            ring.gather(q)
        with pytest.raises(ringattn.ArgumentError, match="q is float64"):
            ring.attention(q.astype(np.float64), k, v)
    with pytest.raises(ringattn.ArgumentError, match="cannot be used any more: it was closed"):
        ring.attention(q, k, v)
    with pytest.raises(ringattn.ArgumentError, match="expected an mpi4py communicator"):
        ringattn.ring()


def test_example():
    path = Path(__file__).parents[2] / "examples" / "python" / "ring_simulated.py"
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("same bits as one process: True") == 3


# ---- Processes -----------------------------------------------------------------------------------------------------


def _uneven_rows(ring):
    """Consecutive rows that no order gives, another number of queries than keys, float16, a rank without rows."""
    q, k, v, d_out = problem(250, dtype=np.float16, kv_length=301)
    q_ends, k_ends = (0, 100, 100, 250), (0, 1, 300, 301)
    mine = slice(*q_ends[ring.rank : ring.rank + 2]), slice(*k_ends[ring.rank : ring.rank + 2])
    keywords = dict(pattern="causal", strategy="ring")
    out, lse = ring.attention(q[:, mine[0]], k[:, mine[1]], v[:, mine[1]], return_lse=True, **keywords)
    found = ring.attention_backward(d_out[:, mine[0]], q[:, mine[0]], k[:, mine[1]], v[:, mine[1]], out, lse, **keywords)
    whole, whole_lse = ringattn.attention(q, k, v, pattern="causal", return_lse=True)
    expected = ringattn.attention_backward(d_out, q, k, v, whole, whole_lse, pattern="causal")
    assert close(ring.gather(out), whole, 4e-3)
    for a, b in zip(found, expected):
        assert close(ring.gather(a), b, 1e-2)
    return [run.hops == run.planned_hops for run in ring.stats]


def test_uneven_rows(tmp_path):
    assert run_ring(_uneven_rows, 3, tmp_path) == [[True] * 3] * 3


def _mistakes(ring):
    q, k, v, _ = problem(333)
    parts = [ring.split(x, order="zigzag") for x in (q, k, v)]
    said = []

    def refused(*arrays, **keywords):
        try:
            ring.attention(*arrays, timeout=20, **keywords)
        except ringattn.Error as problem:
            said.append((type(problem).__name__, str(problem)))

    refused(*parts[:2], parts[2][:, 1:] if ring.rank == 1 else parts[2], order="zigzag")
    refused(*parts, pattern="casual")
    refused(*parts, order="striped")
    assert not ring.closed
    good = ring.attention(*parts, order="zigzag")  # none of these has broken the ring
    assert close(ring.gather(good, order="zigzag"), ringattn.attention(q, k, v))
    refused(*parts, order="zigzag", pattern="causal" if ring.rank else "full")
    assert ring.closed
    refused(*parts, order="zigzag")
    return said


def test_mistakes_are_said_on_all_ranks(tmp_path):
    for rank, said in enumerate(run_ring(_mistakes, 2, tmp_path)):
        assert isinstance(said, list), said
        kinds, texts = zip(*said)
        assert kinds == ("ArgumentError" if rank else "PeerError", *["ArgumentError"] * 3, "PeerError")
        assert "k has" in texts[0] and ("rank 1 has failed" in texts[0]) == (rank == 0)
        assert "casual" in texts[1]
        assert "order striped gives them" in texts[2]
        assert "pattern" in texts[3]
        assert "cannot be used any more" in texts[4]


def _end(how):
    """A signal to this process, in the middle of a run."""
    threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), how)), daemon=True).start()


def _lost(ring, how, at_work):
    q, k, v, _ = problem(2000 if at_work else 100)
    parts = [ring.split(x) for x in (q, k, v)]
    ring.attention(*parts)
    if ring.rank == 1 and how is not None:
        _end(how)
        if not at_work:
            time.sleep(1000)
    for _ in range(10_000):
        ring.attention(*parts, timeout=3)
        if ring.rank == 1 and how is None:
            return None
    return None


@pytest.mark.parametrize("at_work", [True, False], ids=["at-work", "elsewhere"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, None], ids=["killed", "stopped", "left"])
def test_lost_rank(tmp_path, how, at_work):
    if how is None and not at_work:
        pytest.skip("a rank that leaves is at work")
    outcomes = run_ring(_lost, 3, tmp_path, how, at_work, silent=() if how is None else (1,))
    for rank in (0, 2):
        assert isinstance(outcomes[rank], (ringattn.PeerError, ringattn.DeadlineError)), outcomes
    text = " ".join(str(outcomes[rank]) for rank in (0, 2))
    assert "rank 1" in text
    assert {signal.SIGKILL: "has ended", signal.SIGSTOP: "silent", None: "left"}.get(how) in text or "closed" in text


def _interrupted(ring):
    q, k, v, _ = problem(8000, heads=8, dim=64)
    if ring.rank == 0:
        _end(signal.SIGINT)
    ring.attention(*[ring.split(x) for x in (q, k, v)], timeout=20)


def test_ctrl_c_ends_all_ranks(tmp_path):
    one, two = run_ring(_interrupted, 2, tmp_path)
    assert isinstance(one, KeyboardInterrupt)
    assert isinstance(two, ringattn.PeerError) and "stopped by Ctrl-C" in str(two)
