# SPDX-License-Identifier: Apache-2.0
"""ring_attention over gloo groups of 2, 3 and 4 processes, in ring_gloo.py; and what needs no group."""
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import ringattn.torch  # noqa: E402
from ring_gloo import work  # noqa: E402

RANKS = 4
DEADLINE = 120


def test_groups_of_two_three_and_four(tmp_path):
    """Forward and backward against one process, mistakes, and at last a process that is killed."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=work, args=(rank, RANKS, tmp_path, results)) for rank in range(RANKS)]
    for process in processes:
        process.start()
    try:
        outcomes = {}
        while len(outcomes) < RANKS - 1:
            rank, outcome = results.get(timeout=DEADLINE)
            outcomes[rank] = outcome
            assert f"rank {RANKS - 1} has ended" in outcome, outcome
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert sorted(outcomes) == list(range(RANKS - 1)), outcomes


def test_example():
    """Under torchrun."""
    path = Path(__file__).parents[2] / "examples" / "python" / "ring_torch.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert run.returncode == 0, run.stderr
    assert "over 2 processes" in run.stdout


def test_without_a_group():
    q = torch.zeros(1, 10, 1, 8)
    with pytest.raises(ringattn.ArgumentError, match="torch.distributed is not initialised"):
        ringattn.torch.ring_attention(q, q, q)
    with pytest.raises(ringattn.ArgumentError, match="torch.distributed is not initialised"):
        ringattn.torch.split(q)


def test_split_is_differentiable():
    x = torch.randn(1, 300, 2, requires_grad=True)
    ringattn.split(x, 2, 0, order="zigzag").sum().backward()
    rows = torch.from_numpy(ringattn.rows(300, 2, 0, "zigzag"))
    assert x.grad.sum() == 2 * len(rows) and (x.grad[:, rows] == 1).all()
