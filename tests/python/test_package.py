# SPDX-License-Identifier: Apache-2.0
"""What is installed: the version, the command, the headers, type hints; and that nothing optional is imported."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import typing

import pytest

import ringattn

PROGRAM = """
#include <ringattn/ringattn.h>
#include <stdio.h>
int main(void) { puts(ra_version()); return 0; }
"""


def run(*arguments, **settings):
    return subprocess.run(arguments, capture_output=True, text=True, **settings)


def test_version_is_the_librarys_and_the_headers():
    with open(os.path.join(ringattn.get_include(), "ringattn", "ringattn.h")) as stream:
        header = dict(re.findall(r"#define RA_VERSION_(\w+) (\d+)", stream.read()))
    assert ringattn.__version__ == "{MAJOR}.{MINOR}.{PATCH}".format(**header)
    assert ringattn.__version__ == __import__("importlib.metadata").metadata.version("ringattn")


def test_command():
    result = run(sys.executable, "-m", "ringattn", "--version")
    assert result.stdout == f"ringattn {ringattn.__version__}\n" and result.returncode == 0
    wrong = run(sys.executable, "-m", "ringattn", "attent")
    assert wrong.returncode != 0 and "attent" in wrong.stderr
    script = shutil.which("ringattn", path=os.path.dirname(sys.executable))
    assert run(script, "--version").stdout == result.stdout


def test_headers_and_library_serve_c_programs(tmp_path):
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    (tmp_path / "program.c").write_text(PROGRAM)
    library = os.path.join(os.path.dirname(ringattn.get_include()), "lib")
    program = str(tmp_path / "program")
    built = run("cc", str(tmp_path / "program.c"), "-o", program, "-I", ringattn.get_include(), "-L", library,
                "-lringattn", f"-Wl,-rpath,{library}")
    assert built.returncode == 0, built.stderr
    assert run(program).stdout == ringattn.__version__ + "\n"


def test_importing_takes_numpy_alone():
    code = "import sys, ringattn; print([m for m in ('torch', 'transformers', 'mpi4py', 'jax', 'tqdm') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout == "[]\n"


def test_names_and_hints():
    assert os.path.exists(os.path.join(os.path.dirname(ringattn.__file__), "py.typed"))
    for name in ringattn.__all__:
        thing = getattr(ringattn, name)
        assert inspect.getdoc(thing), name
        if inspect.isfunction(thing):
            typing.get_type_hints(thing)


def test_a_library_that_is_not_there():
    result = run(sys.executable, "-c", "import ringattn", env={**os.environ, "RINGATTN_LIBRARY": "/no/such/library.so"})
    assert result.returncode == 1 and "ImportError: cannot load /no/such/library.so" in result.stderr
