#!/usr/bin/env python3
"""Builds the container image, as an OCI archive with an image for each binary, and the file system of each as a tar.

No container engine is needed. An image has the program, its adapters, the certificates of authorities, and nothing else:
no shell and no libc. It runs as a user who is not root. `Containerfile` makes the same image with an engine.
"""

import json
import pathlib
import sys
import time

import packages
import system
from packages import EXECUTABLE, Entry, PackagingError
from system import text_entry

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 65532  # as in other images without a shell
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def build(binaries):
    """{file name: content} of the archive and of the file systems."""
    version = packages.version()
    layers = {binary.arch: layer(binary) for binary in binaries}
    compressed = {arch: packages.gzipped(content) for arch, content in layers.items()}
    trees = {f"keepwarm-{version}-linux-{ARCHITECTURES[arch]}-rootfs.tar.gz": content for arch, content in compressed.items()}
    return {f"keepwarm-{version}-oci.tar": archive(layers, compressed), **trees}


def layer(binary):
    """The file system of the image, as a tar."""
    if not binary.static:
        raise PackagingError(f"{binary.path}: linked to glibc, which the image does not have; build a static program by packaging/binary.py")
    return tar_with_directories(files(binary))


def files(binary):
    return [
        Entry("usr/bin/keepwarm", binary.content, EXECUTABLE),
        *system.adapters("usr/share/keepwarm/adapters/"),
        Entry("usr/share/keepwarm/welcome/index.html", (system.SYSTEM / "welcome.html").read_bytes()),
        Entry("etc/keepwarm/keepwarm.toml", (system.SYSTEM / "container.toml").read_bytes()),
        Entry(CERTIFICATES, certificates()),
        text_entry("etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nkeepwarm:x:{USER}:{USER}:Keepwarm:/:/sbin/nologin\n"),
        text_entry("etc/group", f"root:x:0:\nkeepwarm:x:{USER}:\n"),
        *packages.licence_entries("usr/share/licenses/keepwarm/"),
    ]


def certificates():
    """Mozilla's list as the pinned package `certifi` has it: that of this machine would differ from another's."""
    found = sorted(pathlib.Path(__file__).resolve().parent.glob(".venv/lib/python3*/site-packages/certifi/cacert.pem"))
    if not found:
        raise PackagingError("certifi is not in packaging/.venv: run `scripts/setup dist`")
    return found[0].read_bytes()


def tar_with_directories(entries):
    """With each directory before what is in it, and a `/tmp` that everyone may use: for spill files."""
    directories = {str(parent) for entry in entries for parent in pathlib.PurePosixPath(entry.name).parents if str(parent) != "."}
    modes = dict.fromkeys(directories, EXECUTABLE) | {"tmp": 0o1777}
    return packages.tar(entries, directories=modes)


def archive(layers, compressed):
    """The image layout (OCI, 1.1) as one tar: an index that names an image for each architecture."""
    blobs = {}
    manifests = [
        {**image(blobs, configuration(arch, content), compressed[arch]), "platform": {"architecture": ARCHITECTURES[arch], "os": "linux"}}
        for arch, content in sorted(layers.items())
    ]
    images = blob(blobs, INDEX, as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    named = {**images, "annotations": {"org.opencontainers.image.ref.name": packages.version()}}
    entries = [
        Entry("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})),
        Entry("index.json", as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]})),
        *(Entry(f"blobs/sha256/{digest}", content) for digest, content in blobs.items()),
    ]
    return packages.tar(entries)


def image(blobs, config, compressed):
    """The descriptor of an image, from its configuration and its layer; its parts go into `blobs`."""
    descriptors = {"config": blob(blobs, CONFIG, as_json(config)), "layers": [blob(blobs, LAYER, compressed)]}
    return blob(blobs, MANIFEST, as_json({"schemaVersion": 2, "mediaType": MANIFEST, **descriptors}))


def configuration(arch, content):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(packages.epoch()))
    return {
        "created": created,
        "architecture": ARCHITECTURES[arch],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8080/tcp": {}},
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/usr/bin/keepwarm"],
            "Cmd": ["run", "--config", "/etc/keepwarm/keepwarm.toml"],
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.title": "keepwarm", "org.opencontainers.image.version": packages.version(), "org.opencontainers.image.licenses": "Apache-2.0 OR MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{packages.sha256(content)}"]},
        "history": [{"created": created, "created_by": "packaging/oci.py"}],
    }


def blob(blobs, kind, content):
    """The descriptor of a content, which is put into `blobs`."""
    digest = packages.sha256(content)
    blobs[digest] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def as_json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, build))
