"""The npm packages: what is in them, and an Express page from a project that was empty before they were installed."""

import contextlib
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tarfile
import unittest

import serving
from serving import CLEAN, LIMIT, PACKAGING, Served, run

PLATFORM = "keepwarm-linux-"
# The framework, as the lock file of this application pins it (`scripts/setup packages` installs it).
EXPRESS = serving.packages.ROOT / "tests/apps/express_site/node_modules"
SERVER = """\
const fs = require('fs');
const app = require('express')();
app.get('/', (request, response) => response.send('Hello from Express'));
app.get('/slow', (request, response) => {
  response.write('begin, ');
  fs.readFile('release', () => response.end('end'));
});
app.listen(process.env.PORT, '127.0.0.1');
"""
CONFIG = """\
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "site"
[app.site]
command = ["node", "server.js"]
env = {{ NODE_PATH = "{express}" }}
"""


def setUpModule():
    """The packages are built once."""
    Packages.files = built(serving.directory(unittest.addModuleCleanup))


class Packages(unittest.TestCase):
    """Each test has an empty directory."""

    files = ()

    def setUp(self):
        base = serving.directory(self.addCleanup)
        self.project = base / "project"
        self.project.mkdir()
        # An empty cache: what is installed comes from the package files.
        self.env = {**CLEAN, "HOME": str(base), "npm_config_cache": f"{base}/cache", "npm_config_update_notifier": "false"}

    def install(self, *options, files=None):
        run(["npm", "install", "--offline", "--no-audit", "--no-fund", *options, *(files or self.files)], cwd=self.project, env=self.env)
        return self.project / "node_modules/.bin/keepwarm"

    def site(self):
        self.assertTrue((EXPRESS / "express").is_dir(), f"{EXPRESS} has no express: run scripts/setup packages")
        (self.project / "server.js").write_text(SERVER)
        (self.project / "keepwarm.toml").write_text(CONFIG.format(express=EXPRESS))

    def served(self, *command):
        return Served([*command, "run", "--config", "keepwarm.toml"], cwd=self.project, env=self.env)

    def check_page(self, *command):
        with self.served(*command) as server:
            self.assertEqual(server.get(), (200, "Hello from Express"))

    def check_page_by_npx(self):
        """npm starts commands by a shell and signals only that; Ctrl-C signals the whole group. Its exit status is npm's own."""
        with self.served("npx", "keepwarm") as server:
            self.assertEqual(server.get(), (200, "Hello from Express"))
            os.killpg(server.process.pid, signal.SIGINT)
            self.ended(server)

    def ended(self, server):
        """Without a signal from `Served.stop`."""
        while server.read(LIMIT):
            pass
        server.process.wait(timeout=LIMIT)
        for number, _ in server.left():  # after a SIGKILL, the guardian has to end the others first
            with contextlib.suppress(ProcessLookupError):
                process = os.pidfd_open(number)
                select.select([process], [], [], LIMIT)
                os.close(process)
        self.assertEqual(server.left(), [], server.output)
        server.stop = lambda: None


def built(out):
    run([PACKAGING / "npm.py", "--binary", serving.binary(), "--out", out], cwd=out, env=CLEAN)
    return sorted(out.iterdir())


def is_binary(path):
    return path.read_bytes()[:4] == b"\x7fELF"


class Content(Packages):
    def test_two_builds_are_the_same(self):
        again = built(self.project)
        self.assertEqual([file.name for file in again], [file.name for file in self.files])
        for first, second in zip(self.files, again):
            self.assertEqual(first.read_bytes(), second.read_bytes(), first.name)

    def test_the_tarballs_have_the_form_of_the_registry(self):
        for file in self.files:
            with tarfile.open(file) as archive:
                members = archive.getmembers()
            self.assertEqual([member.name for member in members], sorted(member.name for member in members))
            for member in members:
                self.assertTrue(member.name.startswith("package/"), member.name)
                self.assertEqual((member.uid, member.gid, member.mtime), (0, 0, members[0].mtime))
                self.assertEqual(member.mode, 0o755 if member.name == "package/bin/keepwarm" else 0o644, member.name)
            self.assertLessEqual({"package/package.json", "package/README.md", "package/LICENSE-MIT", "package/LICENSE-APACHE"}, {member.name for member in members})

    def test_npm_reads_them_as_packages(self):
        """`npm pack` packs an unpacked one to the same files."""
        for file in self.files:
            with tarfile.open(file) as archive:
                archive.extractall(self.project / file.stem, filter="data")
                names = {member.name.removeprefix("package/") for member in archive.getmembers()}
            listed = json.loads(run(["npm", "pack", "--dry-run", "--json", "--silent"], cwd=self.project / file.stem / "package", env=self.env))
            entry = listed[0] if isinstance(listed, list) else next(iter(listed.values()))
            self.assertEqual({item["path"] for item in entry["files"]}, names)

    def test_the_platform_is_declared(self):
        cpu = {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]
        main, platform = (self.manifest(file) for file in self.files)
        if main["name"] != "keepwarm":
            main, platform = platform, main
        self.assertEqual((platform["name"], platform["os"], platform["cpu"]), (f"@keepwarm/linux-{cpu}", ["linux"], [cpu]))
        self.assertEqual(main["optionalDependencies"], {f"@keepwarm/linux-{cpu}": main["version"] for cpu in ("arm64", "x64")})
        self.assertEqual(main["version"], platform["version"])

    def manifest(self, file):
        with tarfile.open(file) as archive:
            return json.load(archive.extractfile("package/package.json"))

    def test_a_binary_for_another_architecture_is_refused(self):
        other = {"x86_64": "aarch64", "aarch64": "x86_64"}[os.uname().machine]
        path = serving.binary().partition("=")[2]
        output = run([PACKAGING / "npm.py", "--binary", f"{other}={path}", "--out", self.project], cwd=self.project, env=CLEAN, status=1)
        self.assertIn(f"--binary {other}={path}: built for ELF machine", output)
        self.assertEqual(list(self.project.iterdir()), [])


class Installed(Packages):
    def test_npx(self):
        self.install()
        self.site()
        self.check_page_by_npx()

    def test_the_command_becomes_the_binary(self):
        command = self.install()
        self.assertTrue(is_binary(command), "install.js did not replace the script")
        self.site()
        self.check_page(command)

    def test_without_scripts(self):
        command = self.install("--ignore-scripts")
        self.assertFalse(is_binary(command))
        self.site()
        self.check_page(command)

    def test_without_scripts_by_npx(self):
        self.install("--ignore-scripts")
        self.site()
        self.check_page_by_npx()

    def test_sigterm_lets_a_response_end(self):
        self.drains(self.install())

    def test_sigterm_lets_a_response_end_without_scripts(self):
        self.drains(self.install("--ignore-scripts"))

    def test_ctrl_c_without_scripts(self):
        """It reaches the script and the binary, and the script passes it on: that is one signal, not a second that stops at once."""
        self.drains(self.install("--ignore-scripts"), lambda server: os.killpg(server.process.pid, signal.SIGINT))

    def drains(self, command, stop=lambda server: server.process.send_signal(signal.SIGTERM)):
        self.site()
        os.mkfifo(self.project / "release")
        with self.served(command) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
            self.addCleanup(connection.close)
            connection.request("GET", "/slow")
            response = connection.getresponse()
            self.assertEqual(response.read(len("begin, ")), b"begin, ")
            stop(server)
            server.wait_for("shutting down|stopping|draining")
            (self.project / "release").write_text("now")
            self.assertEqual(response.read(), b"end")

    def test_exit_status_and_arguments_without_scripts(self):
        command = self.install("--ignore-scripts")
        (self.project / "a b.toml").write_text("[listen.main]\nbnd = 1\n")
        binary = serving.binary().partition("=")[2]
        for arguments in (["--version"], ["run", "--dry-run", "--config", "a b.toml"], ["explain", "nothing"]):
            direct = subprocess.run([binary, *arguments], cwd=self.project, env=self.env, capture_output=True)
            script = subprocess.run([command, *arguments], cwd=self.project, env=self.env, capture_output=True)
            self.assertEqual((script.returncode, script.stdout, script.stderr), (direct.returncode, direct.stdout, direct.stderr))

    def test_a_killed_binary_kills_the_script(self):
        command = self.install("--ignore-scripts")
        self.site()
        server = self.served(command)
        with server:
            children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
            target = int(children[0]) if children else server.process.pid  # a Node that has execve has become it
            os.kill(target, signal.SIGKILL)
            self.assertEqual(server.process.wait(timeout=LIMIT), -signal.SIGKILL)
            self.ended(server)


class Faults(Packages):
    def fault(self, command):
        return run([command, "--version"], cwd=self.project, env=self.env, status=1)

    def test_the_optional_dependency_is_missing(self):
        for options in ([], ["--ignore-scripts"]):
            with self.subTest(options):
                command = self.install(*options, files=[file for file in self.files if not file.name.startswith(PLATFORM)])
                text = self.fault(command)
                self.assertRegex(text, r"^keepwarm: package @keepwarm/linux-\w+ not found: optional dependencies were left out")
                self.assertRegex(text, r"npm install @keepwarm/linux-\w+@\d")
                self.assertEqual(len(text.splitlines()), 1)
                shutil.rmtree(self.project / "node_modules")

    def test_the_platform_package_has_another_version(self):
        command = self.install("--ignore-scripts")
        (manifest,) = self.project.glob("node_modules/@keepwarm/*/package.json")
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "99.0.0"}))
        self.assertIn("has version 99.0.0, expected", self.fault(command))

    def test_there_is_no_binary_for_the_platform(self):
        self.install("--ignore-scripts")
        code = "Object.defineProperty(process, 'platform', { value: 'darwin' }); require('./node_modules/keepwarm/platform.js').binary()"
        output = run(["node", "-e", code], cwd=self.project, env=self.env, status=1)
        self.assertRegex(output, r"no binary for darwin on \w+; there are the packages @keepwarm/linux-arm64 and @keepwarm/linux-x64")


if __name__ == "__main__":
    unittest.main()
