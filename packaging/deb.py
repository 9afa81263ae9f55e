#!/usr/bin/env python3
"""Builds a Debian package for each binary.

Needs `dpkg-deb`, which writes the archive; the bytes also depend on the version of its xz.
"""

import email.utils
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import packages
import system
from packages import EXECUTABLE, PackagingError
from system import text_entry

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
REVISION = 1
MAINTAINER = "The Keepwarm authors <keepwarm@packages.invalid>"
DOC = "usr/share/doc/keepwarm"
SCRIPTS = ("postinst", "prerm", "postrm")


def build(binaries):
    return {f"keepwarm_{number()}_{ARCHITECTURES[binary.arch]}.deb": package(binary) for binary in binaries}


def number():
    return f"{packages.version()}-{REVISION}"


def package(binary):
    files = [*system.entries(binary, zsh="usr/share/zsh/vendor-completions"), *documents()]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        system.stage(root, [*files, *control_files(binary, files)])
        return archive(root, pathlib.Path(folder, "keepwarm.deb"))


def documents():
    """What Debian's policy asks for (§12)."""
    stamp = email.utils.formatdate(packages.epoch())
    history = f"keepwarm ({number()}) unstable; urgency=medium\n\n  * Version {packages.version()}; changelog.gz has what changed.\n\n -- {MAINTAINER}  {stamp}\n"
    return [
        text_entry(f"{DOC}/copyright", copyright_text()),
        packages.Entry(f"{DOC}/changelog.gz", packages.gzipped(system.changes(), packages.BEST)),
        packages.Entry(f"{DOC}/changelog.Debian.gz", packages.gzipped(history.encode(), packages.BEST)),
        packages.Entry("usr/share/lintian/overrides/keepwarm", (system.SYSTEM / "deb/lintian-overrides").read_bytes()),
    ]


def copyright_text():
    """The machine-readable format, 1.0. Debian has the text of Apache's licence."""
    mit = (packages.ROOT / "LICENSE-MIT").read_text()
    holder = next(line.removeprefix("Copyright (c) ") for line in mit.splitlines() if line.startswith("Copyright"))
    body = mit.split(holder, 1)[1].strip()
    indented = textwrap.indent("\n".join(line or "." for line in body.splitlines()), " ")
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: keepwarm\n\n"
        f"Files: *\nCopyright: {holder}\nLicense: Apache-2.0 or Expat\n\n"
        "License: Apache-2.0\n On Debian systems, the Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0.\n\n"
        f"License: Expat\n{indented}\n"
    )


def control_files(binary, files):
    sums = "".join(f"{hashlib.md5(entry.content).hexdigest()}  {entry.name}\n" for entry in sorted(files))  # noqa: S324 # the format's
    return [
        text_entry("DEBIAN/control", control(binary, files)),
        text_entry("DEBIAN/conffiles", "".join(f"/{name}\n" for name in sorted(system.CONFIGURATION))),
        text_entry("DEBIAN/md5sums", sums),
        *(packages.Entry(f"DEBIAN/{name}", (system.SYSTEM / "deb" / name).read_bytes(), EXECUTABLE) for name in SCRIPTS),
    ]


def control(binary, files):
    size = sum(-(-len(entry.content) // 1024) for entry in files)
    paragraphs = [textwrap.fill(paragraph, 78, initial_indent=" ", subsequent_indent=" ") for paragraph in system.DESCRIPTION.split("\n\n")]
    fields = {
        "Package": "keepwarm",
        "Version": number(),
        "Architecture": ARCHITECTURES[binary.arch],
        "Maintainer": MAINTAINER,
        "Installed-Size": size,
        "Depends": ", ".join(requirements(binary)),
        "Recommends": "ca-certificates, logrotate",
        "Suggests": "php-cgi, php-cli, python3, ruby",
        "Section": "httpd",
        "Priority": "optional",
        "Description": f"{system.SUMMARY}\n" + "\n .\n".join(paragraphs),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def requirements(binary):
    # systemd provides systemd-sysusers; without it, the smallest program that creates the user.
    needed = ["systemd-standalone-sysusers | systemd-sysusers"]
    if binary.static:
        return needed
    return ["libc6 (>= {}.{})".format(*binary.glibc), "libgcc-s1", *needed]


def archive(root, out):
    """One thread: with more, xz divides the content by their number."""
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{packages.COMPRESSION}", "--threads-max=1", "--build", root, out]
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SOURCE_DATE_EPOCH": str(packages.epoch())}
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        raise PackagingError("program `dpkg-deb` not found in /usr/bin and /bin; install it, for example `apt install dpkg`") from None
    if done.returncode:
        raise PackagingError(f"`dpkg-deb` failed with exit status {done.returncode}:\n{done.stdout}")
    return out.read_bytes()


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
