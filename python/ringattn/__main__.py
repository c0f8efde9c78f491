# SPDX-License-Identifier: Apache-2.0
"""`python -m ringattn` is the command `ringattn`: this process becomes it."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command that the package carries, with the arguments of this process."""
    command = Path(__file__).resolve().parent / "bin" / "ringattn"
    if not command.exists():
        sys.exit(f"ringattn: no command at {command}: install the package with `pip install .` in a clone")
    os.execv(command, ["ringattn", *sys.argv[1:]])


if __name__ == "__main__":
    main()
