# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of the README run as they are printed."""

import doctest
import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_blocks():
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks and all(block.startswith(">>> ") for block in blocks)
    parser = doctest.DocTestParser()
    test = parser.get_doctest("\n".join(blocks), {}, README.name, str(README), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_first_80_lines():
    lines = README.read_text(encoding="utf-8").splitlines()[:80]
    assert "```python" in lines and "```" in lines[lines.index("```python") :]
