#!/usr/bin/env python3
"""Builds the Ruby gems: one for the platform of each binary, with the program, and one for every other platform, without.

Needs `gem` (RubyGems), which writes the archives.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import packages

PROJECT = packages.ADAPTERS / "ruby"
NAME = "keepwarm"
GEMSPEC = "keepwarm.gemspec"


def build(binaries):
    entries = [
        packages.file_entry(PROJECT / "README.md", "README.md"),
        packages.file_entry(PROJECT / GEMSPEC, GEMSPEC),
        *packages.tree(PROJECT / "exe", "exe/"),
        *packages.tree(PROJECT / "lib", "lib/", {".rb"}),
        *packages.licence_entries(""),
    ]
    files = [gem(entries, "ruby")]
    for binary in binaries:
        # Where Keepwarm::Program looks; the same name for every libc.
        program = packages.Entry(f"exe/{binary.arch}-linux/{NAME}", binary.content, packages.EXECUTABLE)
        files.append(gem([*entries, program], platform(binary)))
    return dict(files)


def platform(binary):
    """The platform of RubyGems: without a libc, it matches hosts of every libc (RubyGems before 3.3.22 has no name for glibc)."""
    return f"{binary.arch}-linux" if binary.static else f"{binary.arch}-linux-gnu"


def gem(entries, target):
    """The name and the content of a gem, from a directory that has exactly its files."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "source")
        for entry in entries:
            path = source / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
        # The option --platform of `gem build` has no effect in RubyGems 3.3.
        builder = source / "platform.gemspec"
        builder.write_text(f'Gem::Specification.load("{GEMSPEC}").tap {{ |spec| spec.platform = "{target}" }}\n')
        # RubyGems gives every file this time, and the same owner.
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(packages.epoch())}
        command = ["gem", "build", "--norc", builder.name]
        try:
            done = subprocess.run(command, cwd=source, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            raise packages.PackagingError("program `gem` not found in PATH; install Ruby with RubyGems, for example `apt install ruby`") from None
        built = list(source.glob("*.gem"))
        if done.returncode or len(built) != 1:
            raise packages.PackagingError(f"`gem build` failed for platform {target} with exit status {done.returncode}:\n{done.stdout}")
        # RubyGems before 3.3.22 leaves `-gnu` out of the name, though not out of the specification.
        suffix = "" if target == "ruby" else f"-{target}"
        return f"{NAME}-{packages.version()}{suffix}.gem", built[0].read_bytes()


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
