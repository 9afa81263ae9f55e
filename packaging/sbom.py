#!/usr/bin/env python3
"""Writes the bill of materials of each binary: CycloneDX 1.6 as JSON, from `cargo metadata` and Cargo.lock.

It has every crate that is compiled into the program, with its licence, its SHA-256 in the registry, and what it needs.
"""

import json
import subprocess
import sys
import time
import tomllib
import uuid

import packages
from packages import ROOT, PackagingError

PROGRAM = "keepwarm"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:keepwarm:sbom")
# C code that a crate compiles, and what Rust's target links. Cargo does not know of these.
BUNDLED = {"aws-lc-sys": "AWS-LC", "libmimalloc-sys": "mimalloc", "zstd-sys": "zstd"}


def build(binaries):
    return {f"keepwarm-{packages.version()}-{binary.arch}.cdx.json": bill(binary) for binary in binaries}


def bill(binary):
    libc = "gnu" if binary.glibc else "musl"
    metadata = cargo_metadata(f"{binary.arch}-unknown-linux-{libc}")
    crates = {package["id"]: package for package in metadata["packages"]}
    program = next(key for key in metadata["workspace_members"] if crates[key]["name"] == PROGRAM)
    needs = linked(program, metadata["resolve"]["nodes"], crates)
    sums = checksums()
    refs = {key: reference(crates[key]) for key in needs}
    body = {
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(packages.epoch())),
            "component": {**component(crates[program], sums), "type": "application", "hashes": [sha256(packages.sha256(binary.content))]},
        },
        "components": sorted((component(crates[key], sums) for key in needs if key != program), key=lambda each: each["bom-ref"]),
        "dependencies": sorted(({"ref": refs[key], "dependsOn": sorted(refs[other] for other in others)} for key, others in needs.items()), key=lambda each: each["ref"]),
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(body, sort_keys=True))
    head = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return (json.dumps({**head, **body}, indent=2) + "\n").encode()


def cargo_metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    try:
        return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout)
    except FileNotFoundError:
        raise PackagingError("program `cargo` not found in PATH; install Rust by rustup") from None
    except subprocess.CalledProcessError as error:
        raise PackagingError(f"`{' '.join(command)}` failed with exit status {error.returncode}") from None


def linked(program, nodes, crates):
    """{id: ids of what it needs}: what is reached by normal dependencies. A macro runs at compile time, and so does a build script."""
    needed = {node["id"]: [each["pkg"] for each in node["deps"] if any(kind["kind"] is None for kind in each["dep_kinds"])] for node in nodes}
    found, waiting = {}, [program]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = [other for other in needed[key] if not is_macro(crates[other])]
            waiting += found[key]
    return found


def is_macro(crate):
    return any("proc-macro" in target["kind"] for target in crate["targets"])


def component(crate, sums):
    found = {"type": "library", "bom-ref": reference(crate), "name": crate["name"], "version": crate["version"], "purl": reference(crate)}
    if crate["license"]:
        # Crates of before 2018 have a slash, which is no longer an expression of SPDX.
        found["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    if digest := sums.get((crate["name"], crate["version"])):
        found["hashes"] = [sha256(digest)]
    if crate["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    if bundled := BUNDLED.get(crate["name"]):
        found["components"] = [{"type": "library", "bom-ref": f"{reference(crate)}#bundled", "name": bundled, **upstream_version(crate)}]
    return found


def upstream_version(crate):
    """The version of the C code, if the crate names it: `2.1.3+zstd.1.5.7`."""
    _, plus, version = crate["version"].partition(f"+{crate['name'].removesuffix('-sys')}.")
    return {"version": version} if plus else {}


def reference(crate):
    """Its package URL, where a plus would be a space."""
    return f"pkg:cargo/{crate['name']}@{crate['version'].replace('+', '%2B')}"


def sha256(digest):
    return {"alg": "SHA-256", "content": digest}


def checksums():
    with open(ROOT / "Cargo.lock", "rb") as file:
        return {(package["name"], package["version"]): package["checksum"] for package in tomllib.load(file)["package"] if "checksum" in package}


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
