"""What all package formats share: the version, the binaries, archives that are the same for the same input, SHA-256.

Each format is a module and a command beside this one: `packaging/FORMAT.py --binary x86_64=PATH --out DIR`. The commands
need the standard library of Python 3.11 only. An input that cannot be packaged is a `PackagingError`: `run` prints it and
exits with status 1, and nothing is written.
"""

import argparse
import dataclasses
import functools
import gzip
import hashlib
import io
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "adapters"
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
EXECUTABLE = 0o755
PLAIN = 0o644
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of ELF
PT_INTERP = 3
# How hard archives are compressed, from 1 to 9. The tests set it to 1: their program is not optimized, and takes a minute for each archive with 9.
BEST = 9
COMPRESSION = int(os.environ.get("KEEPWARM_PACKAGE_COMPRESSION", BEST))
ZIP_EPOCH = 315_532_800  # 1980-01-01: the ZIP format has no earlier time


class PackagingError(Exception):
    """An input that cannot be packaged; the text says which, why, and what to do."""


@dataclasses.dataclass(frozen=True, order=True)
class Entry:
    """A file of an archive: its path there, its content, its mode."""

    name: str
    content: bytes
    mode: int = PLAIN


@dataclasses.dataclass(frozen=True)
class Binary:
    """The program for one architecture. `glibc` is the oldest glibc that runs it, (2, 34); None: static, no libc needed."""

    arch: str
    path: pathlib.Path
    content: bytes
    glibc: tuple[int, int] | None

    @property
    def static(self):
        return self.glibc is None


def version():
    """The version of the workspace; that of each adapter must be the same."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        number = tomllib.load(file)["workspace"]["package"]["version"]
    for name, pattern in ADAPTER_VERSIONS.items():
        found = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
        if not found or found[1] != number:
            shown = found[1] if found else "no version"
            raise PackagingError(f"{name}: found {shown}, expected {number}, the version in Cargo.toml; set both to the same")
    return number


ADAPTER_VERSIONS = {
    "adapters/python/src/keepwarm/__init__.py": r'^__version__ = "(.*)"$',
    "adapters/ruby/lib/keepwarm/version.rb": r'^ *VERSION = "(.*)"$',
    "adapters/php/src/Main.php": r"^ *public const VERSION = '(.*)';$",
}


@functools.cache
def epoch():
    """The time that every file in a package has: `SOURCE_DATE_EPOCH`, else that of the last commit, in seconds."""
    if text := os.environ.get("SOURCE_DATE_EPOCH"):
        if not text.isascii() or not text.isdigit():
            raise PackagingError(f"SOURCE_DATE_EPOCH={text}: expected seconds since 1970 as a decimal number")
        return int(text)
    try:
        log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        raise PackagingError("no time for the files in packages: this is not a git checkout; set SOURCE_DATE_EPOCH") from None
    return int(log.stdout)


def tree(folder, under="", suffixes=None):
    """The files beneath a directory, as entries beneath `under`, without caches, hidden files and those of other suffixes.

    An executable stays executable.
    """
    entries = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in name.parts) or not path.is_file():
            continue
        if suffixes is not None and path.suffix not in suffixes:
            continue
        entries.append(file_entry(path, f"{under}{name.as_posix()}"))
    return entries


def file_entry(path, name):
    """One file of the repository. Only the owner's executable bit counts: other bits depend on the umask of the checkout."""
    return Entry(name, path.read_bytes(), EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN)


def licence_entries(under):
    return [file_entry(ROOT / name, under + name) for name in LICENCES]


def tar(entries, directories=None):
    """A tar (POSIX) of the entries, in the order of their names, owned by root. `directories`: {name: mode} of those it has too."""
    out = io.BytesIO()
    members = [*((name, mode, None) for name, mode in (directories or {}).items()), *((entry.name, entry.mode, entry.content) for entry in entries)]
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode, content in sorted(members, key=lambda each: each[0]):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = mode, epoch()
            if content is None:
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def gzipped(content, level=COMPRESSION):
    return gzip.compress(content, level, mtime=0)


def zipped(entries, *, ordered=False):
    """A ZIP of the entries, in the order of their names, or with `ordered` in the order given."""
    moment = max(epoch(), ZIP_EPOCH)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as archive:
        for entry in entries if ordered else sorted(entries):
            member = zipfile.ZipInfo(entry.name, zip_time(moment))
            member.create_system = 3  # Unix: the mode is in the upper half of the attributes
            member.external_attr = (0o100000 | entry.mode) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, entry.content)
    return out.getvalue()


def zip_time(seconds):
    return time.gmtime(seconds)[:6]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def read_binary(text):
    """`ARCH=PATH` of the command line: the program, once it has proved to be one for that architecture."""
    arch, equals, name = text.partition("=")
    if not equals or arch not in MACHINES:
        raise PackagingError(f"--binary {text}: expected ARCH=PATH, where ARCH is {' or '.join(MACHINES)}")
    path = pathlib.Path(name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PackagingError(f"--binary {text}: {error.strerror}; build the binary first, or correct the path") from None
    dynamic = elf_interpreter(content, arch, text)
    if dynamic is None:
        return Binary(arch, path, content, None)
    if "musl" in dynamic:
        raise PackagingError(f"--binary {text}: linked dynamically to musl ({dynamic}); link it statically, or to glibc")
    needed = [tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", content)]
    if not needed:
        raise PackagingError(f"--binary {text}: found no version of glibc that it needs, although {dynamic} loads it")
    return Binary(arch, path, content, max(needed))


def elf_interpreter(content, arch, text):
    """The loader that an ELF program names (PT_INTERP); None for a static one."""
    if content[:6] != b"\x7fELF\x02\x01" or len(content) < 64:
        raise PackagingError(f"--binary {text}: not a 64-bit little-endian ELF program; expected the program `keepwarm`")
    (machine,) = struct.unpack_from("<H", content, 18)
    if machine != MACHINES[arch]:
        raise PackagingError(f"--binary {text}: built for ELF machine {machine}, expected {MACHINES[arch]} ({arch})")
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    if table + size * count > len(content) or size < 56:
        raise PackagingError(f"--binary {text}: its program headers are outside the file; the file is damaged: build it again")
    for at in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == PT_INTERP:
            return content[offset : offset + length].rstrip(b"\0").decode("ascii", "replace")
    return None


def run(description, build, *, binaries=True, options=None):
    """The command of a format: `build(binaries)` gives `{file name: content}`, which is written to `--out` whole or not at all.

    `options`: more options of the format, {name: help}, each required; `build` gets their values as keyword arguments.
    Prints a line `SHA-256  NAME` for each file, as `sha256sum` does.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="directory for the packages")
    if binaries:
        parser.add_argument("--binary", action="append", required=True, metavar="ARCH=PATH", help="program for an architecture; may be repeated")
    for name, text in (options or {}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, required=True, help=text)
    given = vars(parser.parse_args())
    out, texts = given.pop("out"), given.pop("binary", ())
    try:
        files = build(read_binaries(texts), **given) if binaries else build(**given)
        for name, content in sorted(files.items()):
            write(out / name, content)
            print(f"{sha256(content)}  {name}")
    except (PackagingError, OSError) as error:
        print(f"packaging: {error}", file=sys.stderr)
        return 1
    return 0


def read_binaries(texts):
    found = [read_binary(text) for text in texts]
    twice = {binary.arch for binary in found if [other.arch for other in found].count(binary.arch) > 1}
    if twice:
        raise PackagingError(f"--binary: {' and '.join(sorted(twice))} given twice; give each architecture once")
    return found


def write(path, content):
    """A reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
