#!/usr/bin/env python3
"""Checks that no file names the machine it was written on: its home folders, or the folder of this checkout.

Standard library only. Ends with status 1 when a file does.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folders that exist for one person or one machine only. What a product may name (/etc, /run, /usr, /tmp, ...) is not among them.
PERSONAL = ["/home/", "/Users/", "/root/"]


def main():
    personal = [*PERSONAL, f"{ROOT}/", f"{ROOT.parent}/", f"{pathlib.Path.home()}/"]
    # A path begins where no other part of a path or of an address stands before it.
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
    """What git holds; a checkout without git (a source archive) is not checked."""
    if not (ROOT / ".git").exists():
        print("paths: not a git checkout, nothing checked")
        return []
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


if __name__ == "__main__":
    sys.exit(main())
