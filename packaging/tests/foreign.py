"""The program for aarch64, under qemu: a page and an app in Python from its container image, and the tests of the wire.

    KEEPWARM_AARCH64=PATH python3 packaging/tests/foreign.py

Not among the tests that run on every change: it needs the program for aarch64, which takes as long to build as that for
this machine. qemu is registered in a user namespace (Linux 6.7), so nothing is left on the machine.
"""

import os
import subprocess
import unittest

import serving

import binary
import oci
import packages

ARCH = "aarch64"
QEMU = f"qemu-{ARCH}-static"
REGISTRATION = f"/usr/lib/binfmt.d/qemu-{ARCH}.conf"
# The flag F of the registration opens qemu now, so it is found in every root.
REGISTERED = """
    set -e
    mount -t binfmt_misc none "$1"
    cat "$2" >"$1/register"
    shift 2
    exec "$@"
"""


def program():
    path = os.environ.get("KEEPWARM_AARCH64")
    if not path:
        raise AssertionError("KEEPWARM_AARCH64 is not set: set it to the path of the program for aarch64 (packaging/binary.py --arch aarch64)")
    return packages.read_binary(f"{ARCH}={os.path.abspath(path)}")


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = serving.directory(cls.addClassCleanup)
        (cls.folder / "binfmt").mkdir()
        cls.root = cls.folder / "root"
        for entry in oci.files(program()):
            path = cls.root / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
        cls.keepwarm = cls.root / "usr/bin/keepwarm"

    def command(self, line):
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", REGISTERED, "sh"]
        return [*unshare, self.folder / "binfmt", REGISTRATION, *line]

    def test_its_version(self):
        said = serving.run(self.command([self.keepwarm, "--version"]), cwd="/", env=serving.CLEAN)
        self.assertEqual(said, f"keepwarm {packages.version()}\n")

    def test_a_page_without_an_app(self):
        """Not a file: qemu 7.2 lacks `openat2`, by which files are opened. Keepwarm says so when it starts."""
        site = self.folder / "site"
        site.mkdir()
        (site / "keepwarm.toml").write_text('[listen.public]\nbind = "127.0.0.1:0"\n\n[[listen.public.route]]\nrespond = { status = 200, body = "hello" }\n')
        with serving.Served(self.command([self.keepwarm, "run"]), cwd=site, env=serving.CLEAN) as served:
            self.assertEqual(served.get(), (200, "hello"), served.output)

    def test_an_app_in_a_worker(self):
        """The worker is this machine's Python: the wire between them is the same on both."""
        site = self.folder / "app"
        site.mkdir()
        (site / "app.py").write_text("import os\n\ndef app(environ, start_response):\n    body = environ['wsgi.input'].read()\n    start_response('200 OK', [])\n    return [os.uname().machine.encode(), b' ', body]\n")
        with serving.Served(self.command([self.keepwarm, "run", "app:app", "--bind", "127.0.0.1:0", "--workers", "1"]), cwd=site, env=serving.CLEAN) as served:
            self.assertEqual(served.get(), (200, f"{os.uname().machine} "), served.output)


class Wire(unittest.TestCase):
    def test_the_tests_of_the_wire(self):
        target = binary.target(ARCH)
        name = target.replace("-", "_").upper()
        flags = ["-Clinker=rust-lld", "-Clinker-flavor=ld.lld", "-Clink-self-contained=yes"]
        # Examples in the documentation are tests, too: rustdoc links them.
        encoded = dict.fromkeys(["CARGO_ENCODED_RUSTFLAGS", "CARGO_ENCODED_RUSTDOCFLAGS"], "\x1f".join(flags))
        env = {**os.environ, f"CARGO_TARGET_{name}_RUNNER": QEMU, **encoded}
        command = ["cargo", "test", "--locked", "--quiet", "-p", "keepwarm-wire", "--target", target]
        done = subprocess.run(command, cwd=packages.ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("test result: ok", done.stdout)


if __name__ == "__main__":
    unittest.main()
