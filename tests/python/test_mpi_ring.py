# SPDX-License-Identifier: Apache-2.0
"""Rings over mpi4py, with Open MPI and MPICH: ring_mpi_program.py under each one's mpirun."""
import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "python" / "ring_mpi.py"
RUNS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"],
    "mpich": ["mpirun.mpich"],
}


def environment(name, folder):
    """The wheel of mpi4py asks for libmpi.so.12, which Debian's MPICH calls libmpich.so.12."""
    found = dict(os.environ, MPI4PY_MPIABI=name, OMP_WAIT_POLICY="passive")
    if name == "mpich" and not ctypes.util.find_library("mpi") == "libmpi.so.12":
        library = next(iter(sorted(Path("/usr/lib").glob("*/libmpich.so.12"))), None)
        if library is None:
            pytest.skip("no libmpich.so.12")
        (folder / "libmpi.so.12").symlink_to(library)
        found["LD_LIBRARY_PATH"] = f"{folder}:{found.get('LD_LIBRARY_PATH', '')}"
    return found


def mpirun(name, ranks, folder, *program, launcher=None):
    command = RUNS[launcher or name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    return subprocess.run(
        [*command, "-n", str(ranks), sys.executable, *map(str, program)],
        capture_output=True, text=True, timeout=120, env=environment(name, folder),
    )


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", RUNS)
def test_ring(name, ranks, tmp_path):
    run = mpirun(name, ranks, tmp_path, HERE / "ring_mpi_program.py", "check")
    assert run.returncode == 0, run.stderr
    assert f"check on {ranks} ranks of {'Open MPI' if name == 'openmpi' else 'MPICH'}: ok" in run.stdout


@pytest.mark.parametrize("name", RUNS)
def test_mistake(name, tmp_path):
    run = mpirun(name, 2, tmp_path, HERE / "ring_mpi_program.py", "mistake")
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", RUNS)
def test_silent_rank(name, tmp_path):
    run = mpirun(name, 3, tmp_path, HERE / "ring_mpi_program.py", "stop")
    assert run.returncode != 0
    assert "rank 2" in run.stdout and "Error" in run.stdout, run.stdout + run.stderr


def test_the_mpirun_of_another_mpi_is_refused(tmp_path):
    run = mpirun("openmpi", 2, tmp_path, HERE / "ring_mpi_program.py", "check", launcher="mpich")
    assert run.returncode != 0
    assert "mpirun started 2 processes, but this program's MPI (Open MPI" in run.stderr


@pytest.mark.parametrize("name", RUNS)
def test_example(name, tmp_path):
    run = mpirun(name, 2, tmp_path, EXAMPLE)
    assert run.returncode == 0, run.stderr
    assert "rank 0 of 2" in run.stdout
