# SPDX-License-Identifier: Apache-2.0
"""The examples for PyTorch and transformers run, each as a program of its own."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

EXAMPLES = sorted(path for name in ("torch", "transformers")
                  for path in (Path(__file__).parents[2] / "examples" / "python").glob(f"{name}_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path):
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, env=dict(os.environ))
    assert result.returncode == 0, result.stderr
    assert result.stdout
