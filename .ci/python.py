#!/usr/bin/env python3
"""Compiles every Python file of the repository, with warnings as errors; the adapter's also with the grammar of CPython 3.9, the oldest supported.

Standard library only. Exits with status 1 if a file does not compile.
"""

import ast
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {"target", ".venv", ".git", "__pycache__", ".cache"}
# Wrong on purpose: tests the error for an application that does not compile.
BROKEN = {"adapters/python/tests/apps/odd/syntax.py"}
OLDEST = (3, 9)


def main():
    warnings.simplefilter("error")
    faults = 0
    for source in sorted(ROOT.rglob("*.py")):
        name = source.relative_to(ROOT)
        if SKIPPED & set(name.parts) or str(name) in BROKEN:
            continue
        try:
            tree = ast.parse(source.read_bytes(), str(name), feature_version=OLDEST if name.parts[0] == "adapters" else None)
            compile(tree, str(name), "exec", dont_inherit=True)
        except (SyntaxError, SyntaxWarning, ValueError) as error:
            faults += 1
            print(f"python: {name}: {error}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
