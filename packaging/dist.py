#!/usr/bin/env python3
"""Builds everything that is published: the program for each architecture, every package, bills of materials, and SHA256SUMS.

`make dist` installs what this needs, and runs it. The same commit gives the same bytes, on each machine that has the same
versions of RubyGems, dpkg and rpm.
"""

import argparse
import pathlib
import sys

import binary
import composer
import deb
import gem
import npm
import oci
import packages
import rpm
import sbom
import wheel
from packages import EXECUTABLE, PLAIN, ROOT, PackagingError

FORMATS = (wheel, gem, npm, deb, rpm, oci, sbom)
SUMS = "SHA256SUMS"


def build(archs, out, *, quick, base_url):
    """Writes everything into the directory; gives {file name: SHA-256}."""
    sums = {}
    programs = []
    for arch in archs:
        name = f"keepwarm-{packages.version()}-{arch}"
        made = binary.build(arch, quick=quick)
        sums |= write(out, made, executable=name)
        programs.append(packages.read_binary(f"{arch}={out / name}"))
    for form in FORMATS:
        sums |= write(out, form.build(programs))
    if base_url:
        archives = {name: content for name, content in composer.build(programs, base_url).items() if name not in sums}
        sums |= write(out, archives)
    else:
        print("no composer package: it pins the URL of the program; give --base-url", file=sys.stderr)
    return sums


def check_size(arch, program):
    """An old record makes a program larger, so this comes last: what was built is there."""
    size = program.stat().st_size
    if size <= binary.LIMIT:
        return
    cause = "see [profile.dist.package] in Cargo.toml for what may be smaller"
    if binary.recorded(arch).is_file():
        cause = f"its record of the load may be older than the source (packaging/pgo.py makes a new one); otherwise {cause}"
    raise PackagingError(f"{program.name} is built, but has {size} bytes, over the limit of {binary.LIMIT}: {cause}")


def write(out, files, executable=None):
    for name, content in files.items():
        packages.write(out / name, content)
        (out / name).chmod(EXECUTABLE if name == executable else PLAIN)
        print(f"{packages.sha256(content)}  {name}", flush=True)
    return {name: packages.sha256(content) for name, content in files.items()}


def remove_old(out, kept):
    """What an earlier run has written, by its list, and this one has not."""
    listed = (out / SUMS).read_text().splitlines() if (out / SUMS).exists() else []
    for name in {line.partition("  ")[2] for line in listed} - kept.keys():
        if name and "/" not in name:
            (out / name).unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=sorted(packages.MACHINES), help="architecture; may be repeated [default: both]")
    parser.add_argument("--quick", action="store_true", help="optimize little: for tests of the packages, not for users")
    parser.add_argument("--base-url", metavar="URL", help="URL of the directory that the programs will be published in; for the composer package")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", metavar="DIR", help="directory for the files [default: dist]")
    options = parser.parse_args()
    try:
        archs = options.arch or sorted(packages.MACHINES)
        sums = build(archs, options.out, quick=options.quick, base_url=options.base_url)
        remove_old(options.out, sums)
        packages.write(options.out / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode())
        for arch in [] if options.quick else archs:
            check_size(arch, options.out / f"keepwarm-{packages.version()}-{arch}")
    except (PackagingError, OSError) as error:
        print(f"packaging: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
