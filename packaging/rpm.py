#!/usr/bin/env python3
"""Builds an RPM package for each binary.

Needs `rpmbuild`, which writes the archive; the bytes also depend on its version, which the package names.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time

import packages
import system
from packages import PackagingError

RELEASE = 1
SPEC = system.SYSTEM / "keepwarm.spec"
# What the service writes to.
DATA = ("/var/lib/keepwarm", "/var/log/keepwarm")


def build(binaries):
    return {f"keepwarm-{packages.version()}-{RELEASE}.{binary.arch}.rpm": package(binary) for binary in binaries}


def package(binary):
    licences = [packages.Entry(f"usr/share/licenses/keepwarm/{name}", (packages.ROOT / name).read_bytes()) for name in packages.LICENCES]
    changes = packages.Entry("usr/share/doc/keepwarm/CHANGELOG.md", system.changes())
    files = [*system.entries(binary, zsh="usr/share/zsh/site-functions"), *licences, changes]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        system.stage(work / "root", files)
        (work / "keepwarm.spec").write_text(spec(binary, files))
        rpmbuild(work, binary.arch)
        (built,) = (work / "RPMS").rglob("*.rpm")
        return built.read_bytes()


def spec(binary, files):
    """The specification, with what depends on the binary and its files filled in."""
    values = {
        "VERSION": packages.version(),
        "RELEASE": str(RELEASE),
        "SUMMARY": system.SUMMARY[0].upper() + system.SUMMARY[1:],
        "DESCRIPTION": "\n\n".join(textwrap.fill(paragraph, 78) for paragraph in system.DESCRIPTION.split("\n\n")),
        "REQUIRES": "" if binary.static else "Requires: libc.so.6(GLIBC_{}.{})(64bit)\n".format(*binary.glibc),
        "DATE": time.strftime("%a %b %d %Y", time.gmtime(packages.epoch())),
        "FILES": "\n".join([*own_directories(files), *map(listed, sorted(files)), *(f"%dir %attr(0750, keepwarm, keepwarm) {name}" for name in DATA)]),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], SPEC.read_text())


def own_directories(files):
    """Directories of this package alone: those named `keepwarm`, and what is beneath them."""
    parents = {parent for entry in files for parent in pathlib.PurePosixPath(entry.name).parents}
    return [f"%dir %attr(0755, root, root) /{parent}" for parent in sorted(parents) if "keepwarm" in parent.parts]


def listed(entry):
    kind = ""
    if entry.name in system.CONFIGURATION:
        kind = "%config(noreplace) "
    elif entry.name.startswith("usr/share/licenses/"):
        kind = "%license "
    elif entry.name.startswith(("usr/share/doc/", "usr/share/man/")):
        kind = "%doc "
    return f"{kind}%attr(0{entry.mode:o}, root, root) /{entry.name}"


def rpmbuild(work, arch):
    macros = {
        "_topdir": work,
        "_rpmdir": work / "RPMS",
        "_buildhost": "localhost",
        "_binary_payload": f"w{packages.COMPRESSION + 6}.zstdio",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        # The files are finished: nothing strips, compresses or compiles them again, and no scripts are searched for what they need.
        "__os_install_post": "%{nil}",
        "debug_package": "%{nil}",
        "_build_id_links": "none",
    }
    command = ["rpmbuild", "-bb", "--target", f"{arch}-linux", "--buildroot", str(work / "buildroot")]
    for name, value in macros.items():
        command += ["--define", f"{name} {value}"]
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(work), "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(packages.epoch()), "STAGE": str(work / "root")}
    try:
        done = subprocess.run([*command, str(work / "keepwarm.spec")], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise PackagingError("program `rpmbuild` not found in PATH; install it, for example `apt install rpm`") from None
    if done.returncode:
        raise PackagingError(f"`rpmbuild` failed with exit status {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
