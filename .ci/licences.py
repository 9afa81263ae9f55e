#!/usr/bin/env python3
"""Checks the licences of every crate in Cargo.lock, and that a crate built in two versions has a reason.

Reads `cargo metadata`; standard library only. Exits with status 1 if a check fails.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Licences under which code may be linked into a program that is Apache-2.0 OR MIT.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0",
    "NCSA", "Unicode-3.0", "Unlicense", "Zlib",
}

# Crates in the lock file that are never built: name -> why.
NOT_BUILT = {
    "webpki-root-certs": "instant-acme could use it for other systems; the features for that are off",
}

# Crates that may be built in two versions: name -> why.
TWICE = {
    "base64": "0.22 belongs to `instant-acme`, 0.23 to the password hashes: each has a page of code in the program",
    "darling": "0.20 belongs to a derive macro of `croner`, 0.24 to one of `ratatui-crossterm`; both run at compile time and are not part of the program",
    "darling_core": "0.20 and 0.24 belong to the same macros",
    "darling_macro": "0.20 and 0.24 belong to the same macros",
    "getrandom": "0.2 belongs to `ring`, which rustls could use instead of aws-lc-rs: it is in the lock file and is not built",
    "strum": "0.27 belongs to `croner`, 0.28 to `ratatui-core`: traits, and code that their macros derive",
    "strum_macros": "0.27 and 0.28 belong to the same crates, and run at compile time",
    "syn": "2 belongs to the derive macros of x509-parser; both run at compile time and are not part of the program",
    "synstructure": "0.13 belongs to the same macros",
    "untrusted": "0.7 belongs to an optional part of aws-lc-rs: it is in the lock file and is not built",
}

# The platforms that are built: versions that only another system uses do not count as duplicates.
PLATFORMS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]


def main():
    faults = []
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml", "simulation/Cargo.toml"]:
        if manifest == "Cargo.toml":
            faults += licences(metadata(manifest))
            faults += duplicates(metadata(manifest, PLATFORMS))
        elif (ROOT / manifest).exists():
            # Tools in separate workspaces: never linked into the product, so only their licences matter.
            faults += licences(metadata(manifest))
    for fault in sorted(set(faults)):
        print(f"licences: {fault}", file=sys.stderr)
    return 1 if faults else 0


def metadata(manifest, platforms=()):
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--manifest-path", str(ROOT / manifest)]
    if (ROOT / manifest).with_name("Cargo.lock").exists():
        command.append("--locked")
    for platform in platforms:
        command += ["--filter-platform", platform]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def licences(data):
    for package in data["packages"]:
        name = f"{package['name']} {package['version']}"
        expression = package["license"]
        if package["name"] in NOT_BUILT:
            continue
        if not expression:
            yield f"{name} has no licence"
        elif not Expression(expression).satisfiable():
            yield f"{name} is under {expression}, which the list in .ci/licences.py does not allow"


def duplicates(data):
    """Considers what the binary is built from: normal and build dependencies, not those of tests."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    seen, waiting = set(), [package["id"] for package in data["packages"] if package["name"] == "keepwarm"]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            product = any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"])
            if product and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    versions = collections.defaultdict(set)
    for package in data["packages"]:
        if package["id"] in seen:
            versions[package["name"]].add(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1 and name not in TWICE:
            yield f"{name} is built in versions {', '.join(sorted(found))}: use one version, or add the reason to .ci/licences.py"
    for name in TWICE:
        if len(versions.get(name, ())) < 2:
            yield f"{name} is listed in .ci/licences.py, but is not built in two versions; remove it"


class Expression:
    """An SPDX licence expression (`/` is the old spelling of OR)."""

    def __init__(self, text):
        self.tokens = re.findall(r"[()]|[^\s()]+", text.replace("/", " OR "))

    def satisfiable(self):
        result = self.any_of()
        if self.tokens:
            raise SystemExit(f"licences: cannot read the rest of an expression: {' '.join(self.tokens)}")
        return result

    def any_of(self):
        result = self.all_of()
        while self.take("OR"):
            result = self.all_of() or result
        return result

    def all_of(self):
        result = self.one()
        while self.take("AND"):
            result = self.one() and result
        return result

    def one(self):
        if self.take("("):
            result = self.any_of()
            self.take(")")
            return result
        name = self.tokens.pop(0)
        if self.take("WITH"):
            name += f" WITH {self.tokens.pop(0)}"
        return name in ALLOWED

    def take(self, token):
        found = bool(self.tokens) and self.tokens[0] == token
        if found:
            self.tokens.pop(0)
        return found


if __name__ == "__main__":
    sys.exit(main())
