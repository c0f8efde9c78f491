# SPDX-License-Identifier: Apache-2.0
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
    # A subpackage has the name of what it needs.
    for part in name.split(".")[1:]:
        if part in ("torch", "transformers"):
            pytest.importorskip(part)
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
