#!/usr/bin/env python3
"""Builds the static program for each architecture, and its debug information in a file of its own.

Any x86_64 or aarch64 machine with Linux builds both. What it needs, `scripts/setup dist` installs: the targets of Rust,
and zig, whose clang compiles the C code. The same sources give the same bytes, in whichever directory they are.
"""

import argparse
import lzma
import os
import pathlib
import subprocess
import sys

import packages
from packages import ROOT, PackagingError

# The second is for tests of the packages: it optimizes little, and not over crates, which takes half an hour.
PROFILES = {False: "dist", True: "dist-quick"}
VENV = pathlib.Path(__file__).resolve().parent / ".venv"
LIMIT = 24 * 1024 * 1024  # bytes of a program, so that it does not grow unnoticed; the aim is 15 MiB


def target(arch):
    return f"{arch}-unknown-linux-musl"


def build(arch, *, quick=False):
    """{file name: content}: the program, stripped, and its debug information."""
    tools = Tools()
    compile_program(arch, tools, quick, [] if quick else optimization(arch))
    folder = target_folder() / target(arch) / PROFILES[quick]
    return split(arch, folder / "keepwarm", tools)


class Tools:
    """Programs that are not on the path: they belong to a pinned Rust or to a pinned package of Python."""

    def __init__(self):
        self.sysroot = pathlib.Path(output(["rustc", "--print", "sysroot"]))
        host = next(line.split()[1] for line in output(["rustc", "-vV"]).splitlines() if line.startswith("host:"))
        self.objcopy = self.sysroot / "lib/rustlib" / host / "bin/rust-objcopy"
        found = sorted(VENV.glob("lib/python3*/site-packages/ziglang/zig"))
        if not found:
            raise PackagingError(f"zig is not in {VENV}: run `scripts/setup dist`")
        self.zig = found[0].resolve()


def output(command, **variables):
    try:
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=True, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL).stdout.strip()
    except FileNotFoundError:
        raise PackagingError(f"program `{command[0]}` not found in PATH; install Rust by rustup") from None
    except subprocess.CalledProcessError as error:
        raise PackagingError(f"`{' '.join(map(str, command))}` failed with exit status {error.returncode}") from None


def target_folder():
    return (ROOT / os.environ.get("CARGO_TARGET_DIR", "target")).resolve()


def memory_functions(arch, tools):
    """Flags that link zig's `memcpy` and `memmove` on x86_64, in place of musl's, which are `rep movsq` and take ten times as long for the sizes of most copies.

    The directory has Rust's own `libc.a` otherwise. For aarch64 musl has assembly that is as fast.
    """
    if arch != "x86_64":
        return []
    folder = target_folder() / "libc" / arch
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "libc.a"
    archive.write_bytes((tools.sysroot / "lib/rustlib" / target(arch) / "lib/self-contained/libc.a").read_bytes())
    zig(tools, ["ar", "dD", archive, "memcpy.lo", "memmove.lo"])
    zig(tools, ["ar", "rD", archive, copying_object(arch, tools, folder)])
    return [f"-Lnative={folder}"]


def copying_object(arch, tools, folder):
    """An object file with `memcpy` and `memmove`, and no other symbol."""
    file = folder / "memory.o"
    # Without -fno-builtin its loop becomes a call of itself.
    zig(tools, ["build-obj", tools.zig.parent / "lib/compiler_rt.zig", "-O", "fast", "-fno-builtin", "-fPIC", "-fstrip", "-ffunction-sections",
                "-target", f"{arch}-linux-musl", f"-femit-bin={file}"])
    objcopy(tools, ["--keep-global-symbol=memcpy", "--keep-global-symbol=memmove", file])
    return file


def objcopy(tools, arguments):
    # Its libraries are Rust's.
    return output([tools.objcopy, *arguments], LD_LIBRARY_PATH=str(tools.sysroot / "lib"))


def zig(tools, arguments):
    return output([tools.zig, *arguments], **zig_caches())


def zig_caches():
    cache = str(target_folder() / "zig-cache")
    return {"ZIG_LOCAL_CACHE_DIR": cache, "ZIG_GLOBAL_CACHE_DIR": cache}


def recorded(arch):
    """What the program does under load, as `pgo.py` has recorded it."""
    return pathlib.Path(__file__).resolve().parent / "pgo" / f"{arch}.profdata.xz"


def optimization(arch):
    """Flags that make the compiler optimize for what was recorded; none where nothing was."""
    if not recorded(arch).is_file():
        return []
    content = lzma.decompress(recorded(arch).read_bytes())
    # Cargo compiles again when the name changes, and does not look into the file.
    file = target_folder() / "pgo" / f"{arch}-{packages.sha256(content)[:16]}.profdata"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    # What has changed since is optimized without it: no warning for each function.
    return [f"-Cprofile-use={file}", "-Cllvm-args=-no-pgo-warn-mismatch"]


def compile_program(arch, tools, quick, flags, folder=None):
    """With these flags of rustc beside those of every build, into `folder` [default: cargo's]."""
    triple = target(arch)
    if not (tools.sysroot / "lib/rustlib" / triple).is_dir():
        raise PackagingError(f"Rust's target {triple} is missing: run `scripts/setup dist`")
    command = ["cargo", "build", "--locked", "--profile", PROFILES[quick], "--target", triple, "-p", "keepwarm", "--bin", "keepwarm"]
    variables = settings(triple, tools, [*memory_functions(arch, tools), *flags])
    into = {"CARGO_TARGET_DIR": str(folder or target_folder())}
    done = subprocess.run(command, cwd=ROOT, env={**clean_environment(), **variables, **into}, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise PackagingError(f"`{' '.join(command)}` failed with exit status {done.returncode}")


def clean_environment():
    """Without what would change the program: flags of a user for compilers, and settings of profiles."""
    foreign = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CC", "CFLAGS", "AR", "TARGET_", "HOST_", "RUSTC_", "AWS_LC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def settings(triple, tools, flags=()):
    """The environment that makes cargo build for `triple`, with Rust's own linker and C library, and zig's clang."""
    here = pathlib.Path(__file__).resolve().parent
    name = triple.replace("-", "_")
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join([*rust_flags(tools), *flags]),
        f"CC_{name}": str(here / "cc"),
        f"AR_{name}": str(here / "ar"),
        "KEEPWARM_ZIG": str(tools.zig),
        # Cargo compiles again when this changes, which it does not for other variables.
        f"CFLAGS_{name}": " ".join(c_flags(tools)),
        **zig_caches(),
    }


def rust_flags(tools):
    return [
        "-Clinker=rust-lld",
        "-Clinker-flavor=ld.lld",
        "-Clink-self-contained=yes",
        # A relocation of a position-independent program takes a bit in place of 24 bytes; musl applies them since 1.2.4.
        "-Clink-arg=--pack-dyn-relocs=relr",
        *(f"--remap-path-prefix={old}={new}" for old, new in directories(tools)),
    ]


def c_flags(tools):
    return [
        *(f"-ffile-prefix-map={old}={new}" for old, new in [*directories(tools), (tools.zig.parent, "/zig")]),
        # mimalloc can print when it was compiled.
        "-Wno-builtin-macro-redefined",
        '-D__DATE__="unknown"',
        '-D__TIME__="unknown"',
    ]


def directories(tools):
    """Directories of this machine, and what the program says in place of them: a traceback should lead to the same sources."""
    cargo = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo").resolve()
    return [
        # The last match counts: what is beneath another stands behind it.
        (cargo, "/cargo"),
        (tools.sysroot, "/rust"),
        (ROOT, "/keepwarm"),
        (target_folder(), "/keepwarm/target"),
    ]


def split(arch, program, tools):
    """The program without symbols, which names the file with them (`.gnu_debuglink`), and that file."""
    name = f"keepwarm-{packages.version()}-{arch}"
    debug = program.with_name(f"{name}.debug")
    stripped = program.with_name(name)
    objcopy(tools, ["--only-keep-debug", "--compress-debug-sections=zlib", program, debug])
    objcopy(tools, ["--strip-all", f"--add-gnu-debuglink={debug}", program, stripped])
    return {name: stripped.read_bytes(), debug.name: debug.read_bytes()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=sorted(packages.MACHINES), help="architecture; may be repeated [default: both]")
    parser.add_argument("--quick", action="store_true", help="optimize little: for tests of the packages, not for users")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="directory for the files")
    options = parser.parse_args()
    try:
        for arch in options.arch or sorted(packages.MACHINES):
            for name, content in build(arch, quick=options.quick).items():
                mode = packages.PLAIN if name.endswith(".debug") else packages.EXECUTABLE
                packages.write(options.out / name, content)
                (options.out / name).chmod(mode)
                print(f"{packages.sha256(content)}  {name}")
    except (PackagingError, OSError) as error:
        print(f"packaging: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
