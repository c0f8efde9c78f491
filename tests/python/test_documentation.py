"""The examples in docstrings run as they are printed. Modules of parts that are not installed are left out."""

import doctest
import importlib
import pkgutil

import pytest

import ringattn

NAMES = ["ringattn"] + [
    module.name for module in pkgutil.walk_packages(ringattn.__path__, "ringattn.", onerror=lambda name: None)
]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings(name):
    if name == "ringattn.__main__":
        pytest.skip("importing it is harmless, and it has no examples")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        pytest.skip(f"{missing.name} is not installed")
    assert doctest.testmod(module).failed == 0
