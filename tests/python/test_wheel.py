# SPDX-License-Identifier: Apache-2.0
"""The wheel of build/dist in a virtual environment of its own, with NumPy and nothing else of this one."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np, ringattn
q = np.ones((1, 3, 2, 4), np.float32)
v = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
assert ringattn.attention(q, q, v, pattern="causal")[0, :, 0, 0].tolist() == [0.0, 4.0, 8.0]
assert ringattn.__file__.startswith("{folder}") and ringattn.info().library.startswith("{folder}")
print(ringattn.__version__)
"""


@pytest.fixture(scope="module")
def wheel():
    found = sorted((ROOT / "build" / "dist").glob("ringattn-*.whl"))
    if not found:
        pytest.skip("no wheel in build/dist: ./dev wheel makes it")
    return found[-1]


def test_one_wheel_for_every_python(wheel):
    assert "-py3-none-manylinux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"ringattn/lib/libringattn.so", "ringattn/bin/ringattn", "ringattn/py.typed"} <= set(names)
    assert {"ringattn/include/ringattn/ringattn.h", "ringattn/include/ringattn/transport.h"} <= set(names)
    assert not [name for name in names if "libmpi" in name]


def test_it_works_in_a_clean_environment(wheel, tmp_path):
    folder = tmp_path / "clean"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, wheel], check=True
    )
    numpy = Path(np.__file__).parent
    for name in ("numpy", "numpy.libs"):
        if (numpy.parent / name).exists():
            (packages / name).symlink_to(numpy.parent / name)
    run = lambda *words: subprocess.run([python, *words], capture_output=True, text=True, cwd=tmp_path, check=True)
    version = run("-c", PROGRAM.format(folder=folder)).stdout.strip()
    assert run("-m", "ringattn", "--version").stdout == f"ringattn {version}\n"
    assert run("-m", "ringattn", "info").stdout.startswith("ringattn")
