# SPDX-License-Identifier: Apache-2.0
"""The problems of bench/peers.py, made small: ringattn, PyTorch and JAX agree on what they compute."""
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import peers
import peers_rows
from peers_cases import CASES

TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}


def small(case):
    rows = case.rows if case.rows < 16 else 40
    return replace(case, rows=rows, keys=40, dim=16, window=9)


# One of each kind: dtypes are tested elsewhere.
KINDS = {(case.sees, case.backward, case.rows > 1): small(case) for case in CASES}


@pytest.mark.parametrize("case", KINDS.values(), ids=lambda case: f"{case.name} {case.dtype}")
def test_agreement(case, tmp_path):
    tensors = case.tensors()
    runs, refused = peers.contenders(case, tensors, ("ringattn", "PyTorch", "JAX"))
    assert "ringattn" in runs and "PyTorch" in runs, refused
    found = peers.errors(case, tensors, {name: run() for name, run in runs.items()})
    assert max(found.values()) < TOLERANCE[case.dtype], found
    samples = peers.measure(runs, 2)
    times = {name: min(values) for name, values in samples.items()}
    assert set(times) == set(runs) and peers.cell("ringattn", times, found)
    machine = peers_rows.machine("made up")
    peers_rows.add(tmp_path / "rows.jsonl", [peers_rows.row(case, name, values, False, found[name], machine)
                                             for name, values in samples.items()])
    found = subprocess.run([sys.executable, "-m", "ringattn", "report", tmp_path / "rows.jsonl", "--section", "speed",
                            "--format", "md"], capture_output=True, text=True, check=True)
    assert "Beside PyTorch: 1 problem," in found.stdout and not found.stderr
