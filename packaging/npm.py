#!/usr/bin/env python3
"""Builds the npm packages: `keepwarm`, and `@keepwarm/linux-CPU` with the binary for each architecture.

They are laid out as `npm pack` does it. `keepwarm` names the others as optional dependencies, of which npm installs the
one for its platform.
"""

import json
import pathlib
import sys

import packages
from packages import EXECUTABLE, Entry

NODE = pathlib.Path(__file__).resolve().parent / "node"
CPUS = {"x86_64": "x64", "aarch64": "arm64"}  # architecture -> `process.arch`


def build(binaries):
    """{file name: content} of the packages."""
    version = packages.version()
    files = {f"keepwarm-{version}.tgz": main_package(version)}
    for binary in binaries:
        files[f"keepwarm-linux-{CPUS[binary.arch]}-{version}.tgz"] = platform_package(version, binary)
    return files


def main_package(version):
    """It names both platforms, whichever were built: its content is that of its version."""
    about = {
        "name": "keepwarm",
        **common(version, "An application server that keeps applications and their connections warm"),
        "bin": {"keepwarm": "bin/keepwarm"},
        "scripts": {"postinstall": "node install.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {f"@keepwarm/linux-{cpu}": version for cpu in sorted(CPUS.values())},
    }
    return packed(about, packages.tree(NODE, "package/"))


def platform_package(version, binary):
    cpu = CPUS[binary.arch]
    about = {
        "name": f"@keepwarm/linux-{cpu}",
        **common(version, f"The binary of the package keepwarm for Linux on {cpu}"),
        "os": ["linux"],
        "cpu": [cpu],
        "preferUnplugged": True,  # Yarn would keep it in an archive, from which nothing can be run
        # A static binary runs with any C library.
        **({} if binary.static else {"libc": ["glibc"]}),
    }
    readme = f"# {about['name']}\n\n{about['description']}.\n"
    return packed(about, [Entry("package/bin/keepwarm", binary.content, EXECUTABLE), Entry("package/README.md", readme.encode())])


def common(version, description):
    return {"version": version, "description": description, "license": "Apache-2.0 OR MIT"}


def packed(about, entries):
    """A tarball in the form of the registry: everything beneath `package/`."""
    manifest = Entry("package/package.json", (json.dumps(about, indent=2) + "\n").encode())
    return packages.gzipped(packages.tar([manifest, *packages.licence_entries("package/"), *entries]))


def main():
    return packages.run(__doc__, build)


if __name__ == "__main__":
    sys.exit(main())
