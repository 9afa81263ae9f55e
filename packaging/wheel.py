#!/usr/bin/env python3
"""Builds the Python packages: a wheel for each binary, and the source distribution.

A wheel has the adapter as the package `keepwarm` and the program as a script, so that it is on the path of the
environment. The source distribution has the adapter alone.
"""

import base64
import hashlib
import sys
import tomllib

import packages
from packages import Entry

PROJECT = packages.ADAPTERS / "python"
NAME = "keepwarm"
# The oldest that each family of tags has for the architectures: a static program needs no libc at all.
STATIC_TAGS = ("manylinux_2_17_{arch}", "manylinux2014_{arch}", "musllinux_1_1_{arch}")


def build(binaries):
    files = {f"{NAME}-{packages.version()}.tar.gz": sdist()}
    for binary in binaries:
        tags = platform_tags(binary)
        files[f"{NAME}-{packages.version()}-py3-none-{'.'.join(tags)}.whl"] = wheel(binary, tags)
    return files


def platform_tags(binary):
    """The platforms that run this binary (PEP 600, PEP 656)."""
    if binary.static:
        return [tag.format(arch=binary.arch) for tag in STATIC_TAGS]
    major, minor = binary.glibc
    return [f"manylinux_{major}_{minor}_{binary.arch}"]


def wheel(binary, tags):
    """The archive (the wheel format, 1.0): what installers read first, `.dist-info`, is last, and RECORD is the last of all."""
    base = f"{NAME}-{packages.version()}"
    about = f"{base}.dist-info/"
    entries = [
        *packages.tree(PROJECT / "src", suffixes={".py"}),
        Entry(f"{base}.data/scripts/{NAME}", binary.content, packages.EXECUTABLE),
        *packages.licence_entries(about + "licenses/"),
        Entry(about + "METADATA", metadata()),
        Entry(about + "WHEEL", wheel_file(tags)),
    ]
    record = about + "RECORD"
    lines = [f"{entry.name},sha256={record_hash(entry.content)},{len(entry.content)}\n" for entry in entries]
    return packages.zipped([*entries, Entry(record, "".join([*lines, f"{record},,\n"]).encode())], ordered=True)


def record_hash(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel_file(tags):
    lines = ["Wheel-Version: 1.0", "Generator: keepwarm/packaging", "Root-Is-Purelib: false", *(f"Tag: py3-none-{tag}" for tag in tags)]
    return ("\n".join(lines) + "\n").encode()


def metadata():
    """METADATA and PKG-INFO (core metadata 2.1), from pyproject.toml."""
    with open(PROJECT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    fields = [
        ("Metadata-Version", "2.1"),
        ("Name", project["name"]),
        ("Version", packages.version()),
        ("Summary", project["description"]),
        ("License", project["license"]["text"]),
        *(("Classifier", classifier) for classifier in project["classifiers"]),
        ("Requires-Python", project["requires-python"]),
        ("Description-Content-Type", "text/markdown"),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        fields.append(("Provides-Extra", extra))
        fields += [("Requires-Dist", f'{requirement}; extra == "{extra}"') for requirement in requirements]
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return (head + "\n" + (PROJECT / project["readme"]).read_text()).encode()


def sdist():
    """The archive (source distribution format): its PKG-INFO is what the wheels say."""
    base = f"{NAME}-{packages.version()}/"
    entries = [
        *packages.tree(PROJECT / "src", base + "src/", suffixes={".py"}),
        *(packages.file_entry(PROJECT / name, base + name) for name in ("README.md", "pyproject.toml")),
        *packages.licence_entries(base),
        Entry(base + "PKG-INFO", metadata()),
    ]
    return packages.gzipped(packages.tar(entries))


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
