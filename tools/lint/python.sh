#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python files compile, open with a docstring, and have lines of at most 128 characters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -d '' -t files < <(find python tests/python examples/python bench -name '*.py' -print0)
python3 - "${files[@]}" <<'PROGRAM'
import ast
import sys

bad = 0
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    try:
        tree = ast.parse(text, path)
    except SyntaxError as problem:
        print(f"{path}:{problem.lineno}: {problem.msg}")
        bad += 1
        continue
    if text and not ast.get_docstring(tree):
        print(f"{path}: does not open with a docstring that says what the file is for")
        bad += 1
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 128 or line != line.rstrip():
            print(f"{path}:{number}: {len(line)} characters, or blanks at the end")
            bad += 1
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                imported[(alias.asname or alias.name).split(".")[0]] = node.lineno
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {word for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
             for word in node.value.replace("[", " ").replace("]", " ").replace(".", " ").split()}
    if not path.endswith("__init__.py"):
        for name, line in imported.items():
            if name not in used and name != "annotations":
                print(f"{path}:{line}: {name} is imported and not used")
                bad += 1
sys.exit(bad != 0)
PROGRAM
