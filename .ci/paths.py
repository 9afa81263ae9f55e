#!/usr/bin/env python3
"""Checks that no file names the machine it was written on: its home directories, or the directory of this checkout.

Standard library only. Exits with status 1 if a file does.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Directories of one person or one machine. System directories (/etc, /run, /usr, /tmp, ...) are allowed.
PERSONAL = ["/home/", "/Users/", "/root/"]


def main():
    personal = [*PERSONAL, f"{ROOT}/", f"{ROOT.parent}/", f"{pathlib.Path.home()}/"]
    # Not in the middle of a longer path or URL.
    pattern = re.compile(rb"(?<![\w.:/@*-])(?:" + b"|".join(re.escape(p.encode()) for p in personal if p != "//") + rb")")
    found = False
    for name in tracked():
        content = (ROOT / name).read_bytes()
        if name == ".ci/paths.py" or b"\0" in content[:8192]:
            continue
        for number, line in enumerate(content.splitlines(), 1):
            if pattern.search(line):
                found = True
                print(f"paths: {name}:{number}: {line.decode(errors='replace').strip()[:120]}", file=sys.stderr)
    return 1 if found else 0


def tracked():
    """The files that git tracks; a source archive without git is not checked."""
    if not (ROOT / ".git").exists():
        print("paths: not a git checkout, nothing checked")
        return []
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


if __name__ == "__main__":
    sys.exit(main())
