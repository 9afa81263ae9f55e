#!/usr/bin/env python3
"""Builds the program here and in a clone elsewhere, and compares: the bytes must be the same.

    packaging/tests/reproducible.py --arch x86_64 [--quick]

Not among the tests that run on every change: the clone compiles everything. `scripts/setup dist` installs what it needs.
The clone has the last commit, so commit first.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    if changed:
        print(f"reproducible: commit these first, the clone would not have them:\n{changed}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder, "another/place/than/the/first")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        shutil.copytree(ROOT / "packaging/.venv", clone / "packaging/.venv", symlinks=True)
        sums = [build(place, pathlib.Path(folder, name), options) for name, place in (("ours", ROOT), ("theirs", clone))]
    if sums[0] != sums[1]:
        print(f"reproducible: the builds differ:\n{sums[0]}\n{sums[1]}", file=sys.stderr)
        return 1
    print(sums[0], end="")
    return 0


def build(place, out, options):
    """The lines `SHA-256  NAME` of the program and its debug information."""
    command = [place / "packaging/binary.py", "--arch", options.arch, *(["--quick"] if options.quick else []), "--out", out]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
