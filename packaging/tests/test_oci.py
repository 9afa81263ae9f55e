"""The container image: the same bytes twice, a layout as the specification has it, and a fresh root that serves."""

import functools
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import unittest
import unittest.mock

import serving

import oci
import packages

ARCH = os.uname().machine
# What an engine does: the root is the image's alone, with /proc and /dev, and the user is that of the configuration.
ENGINE = """
    set -e
    root=$1
    user=$2
    shift 2
    mkdir -p "$root/proc" "$root/dev"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec /usr/sbin/chroot --userspec="$user" "$root" "$@"
"""


@functools.cache
def built():
    """The directory with the archive and the file system; built once for all tests. A program for glibc is put in as if it were static."""
    out = serving.directory(unittest.addModuleCleanup) / "out"
    out.mkdir()
    for name, content in oci.build([program()]).items():
        (out / name).write_bytes(content)
    return out


def program():
    found = packages.read_binary(serving.binary())
    return packages.Binary(found.arch, found.path, found.content, None)


def libraries():
    """The libraries that a program for glibc needs, which no image has: {name: content}; nothing for a static one."""
    if packages.read_binary(serving.binary()).static:
        return {}
    said = serving.run(["ldd", program().path], cwd="/", env=serving.CLEAN)
    return {path.lstrip("/"): pathlib.Path(path).read_bytes() for path in re.findall(r"(/\S+) \(0x", said)}


@functools.cache
def archive():
    """{name: content} of the archive."""
    (path,) = built().glob("*-oci.tar")
    with tarfile.open(path) as file:
        return {member.name: file.extractfile(member).read() for member in file}


def blob(descriptor):
    return archive()["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]


def image():
    """The manifest and the configuration for this machine."""
    (named,) = json.loads(archive()["index.json"])["manifests"]
    (chosen,) = [each for each in json.loads(blob(named))["manifests"] if each["platform"]["architecture"] == oci.ARCHITECTURES[ARCH]]
    manifest = json.loads(blob(chosen))
    return manifest, json.loads(blob(manifest["config"]))


class Layout(unittest.TestCase):
    def test_two_builds_give_the_same_bytes(self):
        again = oci.build([program()])
        self.assertEqual({name: packages.sha256(content) for name, content in again.items()}, {path.name: packages.sha256(path.read_bytes()) for path in built().iterdir()})

    def test_every_blob_has_its_digest_and_every_descriptor_its_size(self):
        files = archive()
        self.assertEqual(json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        blobs = {name.removeprefix("blobs/sha256/"): content for name, content in files.items() if name.startswith("blobs/")}
        self.assertEqual({name: hashlib.sha256(content).hexdigest() for name, content in blobs.items()}, {name: name for name in blobs})
        found, waiting = set(), json.loads(files["index.json"])["manifests"]
        while waiting:
            descriptor = waiting.pop()
            content = blob(descriptor)
            self.assertEqual(len(content), descriptor["size"])
            found.add(descriptor["digest"].removeprefix("sha256:"))
            if descriptor["mediaType"] in (oci.INDEX, oci.MANIFEST):
                parsed = json.loads(content)
                self.assertEqual(parsed["mediaType"], descriptor["mediaType"])
                waiting += parsed.get("manifests", []) + parsed.get("layers", []) + ([parsed["config"]] if "config" in parsed else [])
        self.assertEqual(found, set(blobs))

    def test_the_configuration_names_the_uncompressed_layer(self):
        manifest, config = image()
        layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{packages.sha256(layer)}" for layer in layers])
        self.assertEqual((config["os"], config["architecture"]), ("linux", oci.ARCHITECTURES[ARCH]))

    def test_a_directory_is_before_what_is_in_it(self):
        manifest, _ = image()
        seen = set()
        with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
            for member in layer:
                parent = str(pathlib.PurePosixPath(member.name).parent)
                self.assertTrue(parent == "." or parent in seen, member.name)
                self.assertEqual((member.uid, member.gid), (0, 0))
                if member.isdir():
                    seen.add(member.name)
        self.assertIn("tmp", seen)

    def test_the_containerfile_makes_the_same_image(self):
        _, config = image()
        lines = dict(re.findall(r"^(USER|EXPOSE|ENV|STOPSIGNAL|ENTRYPOINT|CMD) (.+)$", (serving.PACKAGING / "Containerfile").read_text(), re.MULTILINE))
        ours = config["config"]
        self.assertEqual(
            lines,
            {
                "USER": ours["User"],
                "EXPOSE": " ".join(ours["ExposedPorts"]),
                "ENV": " ".join(ours["Env"]),
                "STOPSIGNAL": ours["StopSignal"],
                "ENTRYPOINT": json.dumps(ours["Entrypoint"]),
                "CMD": json.dumps(ours["Cmd"]),
            },
        )
        added = re.search(r"^ADD (\S+) /$", (serving.PACKAGING / "Containerfile").read_text(), re.MULTILINE)[1]
        name = added.replace("${VERSION}", packages.version()).replace("${TARGETARCH}", oci.ARCHITECTURES[ARCH])
        self.assertEqual((built() / name).read_bytes(), blob(image()[0]["layers"][0]))

    def test_a_program_for_glibc_is_refused(self):
        linked = packages.Binary("x86_64", pathlib.Path("keepwarm"), b"", (2, 34))
        with self.assertRaisesRegex(packages.PackagingError, "keepwarm: linked to glibc, which the image does not have"):
            oci.build([linked])


class Fresh(unittest.TestCase):
    """The image as the root of a process, without an engine."""

    @classmethod
    def setUpClass(cls):
        cls.root = serving.directory(cls.addClassCleanup) / "root"
        cls.root.mkdir(mode=0o755)
        manifest, config = image()
        cls.config = config["config"]
        with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
            layer.extractall(cls.root, filter="fully_trusted")
        for name, content in libraries().items():
            path = cls.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)

    def command(self, arguments):
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENGINE, "sh"]
        return [*unshare, self.root, self.config["User"], *self.config["Entrypoint"], *arguments]

    def environment(self):
        return dict(pair.split("=", 1) for pair in self.config["Env"])

    def test_it_serves_the_welcome_page_as_its_user(self):
        env = {**self.environment(), "KEEPWARM_LISTEN__PUBLIC__BIND": "127.0.0.1:0"}
        with serving.Served(self.command(self.config["Cmd"]), cwd="/", env=env) as served:
            status, body = served.get()
            self.assertEqual((status, "Keepwarm is running" in body), (200, True), body)
            users = {line for line in pathlib.Path(f"/proc/{served.process.pid}/status").read_text().splitlines() if line.startswith(("Uid:", "Gid:"))}
            self.assertEqual(users, {f"{kind}\t{oci.USER}\t{oci.USER}\t{oci.USER}\t{oci.USER}" for kind in ("Uid:", "Gid:")})

    def test_its_configuration_listens_on_every_address(self):
        said = serving.run(self.command(["run", "--dry-run", "--config", "/etc/keepwarm/keepwarm.toml"]), cwd="/", env=self.environment())
        self.assertIn("8080", said + (self.root / "etc/keepwarm/keepwarm.toml").read_text())
        self.assertIn('bind = "0.0.0.0:8080"', (self.root / "etc/keepwarm/keepwarm.toml").read_text())

    def test_it_has_certificates_of_authorities(self):
        """OpenSSL reads them, and they verify a chain as those of any system do: each is one that signs others."""
        bundle = self.root / oci.CERTIFICATES
        said = subprocess.run(["openssl", "storeutl", "-noout", "-certs", bundle], check=True, capture_output=True, text=True).stdout
        self.assertGreater(int(re.search(r"Total found: (\d+)", said)[1]), 100)

    def test_nothing_else_is_in_it(self):
        names = {path.relative_to(self.root).parts[0] for path in self.root.iterdir()} - {"proc", "dev", "lib", "lib64"}
        self.assertEqual(names, {"etc", "tmp", "usr"})
        self.assertEqual([path.name for path in (self.root / "usr/bin").iterdir()], ["keepwarm"])


if __name__ == "__main__":
    unittest.main()
