# SPDX-License-Identifier: Apache-2.0
"""The examples for NumPy run, each as a program of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("numpy_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path):
    result = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout
