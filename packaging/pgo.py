#!/usr/bin/env python3
"""Records what the program does under load, so that `make dist` optimizes for it (profile-guided optimization).

    scripts/setup pgo && packaging/pgo.py

What runs often is laid out and inlined for speed, what never runs for size. The record is a file of the repository, so that two builds
still give the same bytes; it fits one version of Rust and one architecture, and loses what has changed since, function by function. Make a new
one before a release: it takes twenty minutes on two cores, most of them to compile a program that counts.
"""

import argparse
import lzma
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import binary
import packages
from packages import ROOT, PackagingError

# The loads are those of the benchmarks: each kind of app, TLS, HTTP/2, files, compression, the back door. h2load knows whole seconds only.
LOADS = (
    ("run.py", "--rounds", "1", "--seconds", "1"),
    ("backdoor.py", "--rounds", "1", "--seconds", "1"),
    ("idle.py", "--connections", "500"),
)


def record():
    arch = platform.machine()
    if arch not in packages.MACHINES:
        raise PackagingError(f"no program is built for {arch}")
    tools = binary.Tools()
    merge = tools.objcopy.with_name("llvm-profdata")
    if not merge.is_file():
        raise PackagingError("llvm-profdata is missing: run `scripts/setup pgo`")
    # A target directory of its own: everything is compiled with the counters.
    with tempfile.TemporaryDirectory() as folder:
        counters = pathlib.Path(folder)
        program = compile_counting(arch, tools)
        for script, *options in LOADS:
            load(ROOT / "bench/load" / script, [*options, "--keepwarm", program], counters)
        merged = counters / "merged"
        subprocess.run([merge, "merge", "--output", merged, *counters.glob("*.profraw")], check=True, stdin=subprocess.DEVNULL)
        content = lzma.compress(merged.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    file = binary.recorded(arch)
    packages.write(file, content)
    return file


def compile_counting(arch, tools):
    """The program that counts, as it would be shipped otherwise: functions have the same names in both."""
    folder = binary.target_folder() / "pgo"
    binary.compile_program(arch, tools, False, ["-Cprofile-generate"], folder)
    return folder / binary.target(arch) / "dist/keepwarm"


def load(script, options, counters):
    python = ROOT / "bench/.venv/bin/python"
    # One file for all processes of a program, which add to it.
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(counters / "%m.profraw")}
    done = subprocess.run([python, script, *options], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise PackagingError(f"{script.relative_to(ROOT)} failed with exit status {done.returncode}")


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        file = record()
    except (PackagingError, OSError, subprocess.CalledProcessError) as error:
        print(f"packaging: {error}", file=sys.stderr)
        return 1
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
