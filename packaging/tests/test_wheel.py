"""The Python packages: the same bytes twice, and a Flask app served from what pip has installed from the files."""

import ast
import base64
import csv
import email
import functools
import hashlib
import io
import pathlib
import struct
import sys
import tarfile
import unittest
import venv
import zipfile

import serving

import packages
import wheel

HELLO = """import flask, os, sys

app = flask.Flask(__name__)

@app.get("/")
def hello():
    return f"hello from {sys.prefix}"
"""


def program(arch, *segments, strings=b""):
    """The least that is an ELF program: a head, one program header for each `(type, content)`, and the contents."""
    start = 64 + 56 * len(segments)
    headers, contents = b"", strings
    for kind, content in segments:
        headers += struct.pack("<IIQQQQQQ", kind, 4, start + len(contents), 0, 0, len(content), len(content), 1)
        contents += content
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 2, packages.MACHINES[arch], 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    return head + headers + contents


class Folder(unittest.TestCase):
    """With a directory that the tests of a class share."""

    @classmethod
    def setUpClass(cls):
        cls.folder = serving.directory(cls.addClassCleanup)


class Tags(Folder):
    """Which platforms a binary is for."""

    def tags(self, arch, content):
        path = self.folder / self.id()
        path.write_bytes(content)
        return wheel.platform_tags(packages.read_binary(f"{arch}={path}"))

    def test_a_static_program_runs_on_both_families(self):
        for arch in packages.MACHINES:
            expected = [f"manylinux_2_17_{arch}", f"manylinux2014_{arch}", f"musllinux_1_1_{arch}"]
            self.assertEqual(self.tags(arch, program(arch, (1, b"code"))), expected)

    def test_a_program_for_glibc_runs_from_the_newest_symbols_on_that_it_needs(self):
        symbols = b"\0GLIBC_2.2.5\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0"
        loader = (packages.PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0")
        self.assertEqual(self.tags("x86_64", program("x86_64", loader, strings=symbols)), ["manylinux_2_34_x86_64"])

    def test_what_cannot_be_packaged(self):
        loader = (packages.PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0")
        for content, expected in [
            (program("x86_64", loader), "linked dynamically to musl"),
            (program("aarch64"), "built for ELF machine 183, expected 62"),
            (b"#!/bin/sh\n", "not a 64-bit little-endian ELF program"),
            (program("x86_64", (1, b"code"))[:70], "outside the file"),
        ]:
            with self.assertRaisesRegex(packages.PackagingError, expected):
                self.tags("x86_64", content)

    def test_each_wheel_names_its_tags(self):
        path = self.folder / "both"
        path.write_bytes(program("aarch64"))
        name, content = next((name, content) for name, content in wheel.build([packages.read_binary(f"aarch64={path}")]).items() if name.endswith(".whl"))
        version = packages.version()
        self.assertEqual(name, f"keepwarm-{version}-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl")
        about = zipfile.ZipFile(io.BytesIO(content)).read(f"keepwarm-{version}.dist-info/WHEEL").decode().splitlines()
        self.assertEqual(
            [line for line in about if line.startswith("Tag:")],
            ["Tag: py3-none-manylinux_2_17_aarch64", "Tag: py3-none-manylinux2014_aarch64", "Tag: py3-none-musllinux_1_1_aarch64"],
        )

    def test_pip_takes_the_wheel_of_a_static_program_on_both_families(self):
        path = self.folder / "static"
        path.write_bytes(program("x86_64"))
        files = wheel.build([packages.read_binary(f"x86_64={path}")])
        name = next(name for name in files if name.endswith(".whl"))
        (self.folder / name).write_bytes(files[name])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-index", "--no-deps", "--only-binary", ":all:"]
        for platform in "manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64":
            line = [*pip, "--find-links", self.folder, "--dest", self.folder / platform, "--platform", platform, "keepwarm"]
            serving.run(line, cwd=self.folder, env=serving.CLEAN)
            self.assertTrue((self.folder / platform / name).is_file(), platform)
        line = [*pip, "--find-links", self.folder, "--dest", self.folder / "none", "--platform", "manylinux_2_17_aarch64", "keepwarm"]
        self.assertIn("No matching distribution", serving.run(line, cwd=self.folder, env=serving.CLEAN, status=1))


@functools.cache
def built():
    """The directory in which the command has built the packages; once for all tests."""
    out = serving.directory(unittest.addModuleCleanup) / "out"
    serving.build("wheel.py", out)
    return out


class Built(Folder):
    """With the packages, and new environments to install them into."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.out = built()
        (cls.wheel,), (cls.sdist,) = (list(cls.out.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))

    @classmethod
    def environment(cls, name, *arguments):
        """A new virtual environment, with what pip installs: its directory, and the variables that its `activate` sets."""
        where = cls.folder / name
        venv.create(where, symlinks=True, with_pip=True)
        env = {**serving.CLEAN, "VIRTUAL_ENV": str(where), "PATH": f"{where}/bin:{serving.CLEAN['PATH']}"}
        cls.pip(env, *arguments)
        return where, env

    @classmethod
    def pip(cls, env, *arguments):
        return serving.run(["python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments], cwd=cls.folder, env=env)

    def assert_serves(self, line, *, cwd, env, body):
        with serving.Served(line, cwd=cwd, env=env) as served:
            self.assertEqual(served.get(), (200, body), served.output)


class Files(Built):
    def test_two_builds_give_the_same_bytes(self):
        sums = serving.build("wheel.py", self.folder / "again", umask="077")
        self.assertEqual(sums, {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.out.iterdir()})
        self.assertEqual(set(sums), {self.wheel.name, self.sdist.name})

    def test_the_record_names_every_file_with_its_hash(self):
        archive = zipfile.ZipFile(self.wheel)
        self.assertIsNone(archive.testzip())
        names = archive.namelist()
        rows = list(csv.reader(io.StringIO(archive.read(names[-1]).decode())))
        self.assertEqual([row[0] for row in rows], names)
        self.assertEqual(rows[-1], [f"keepwarm-{packages.version()}.dist-info/RECORD", "", ""])
        for name, digest, size in rows[:-1]:
            content = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))), name)

    def test_only_the_program_is_executable(self):
        modes = {member.filename: member.external_attr >> 16 for member in zipfile.ZipFile(self.wheel).infolist()}
        script = f"keepwarm-{packages.version()}.data/scripts/keepwarm"
        self.assertEqual({name for name, mode in modes.items() if mode != 0o100644}, {script})
        self.assertEqual(modes[script], 0o100755)

    def test_the_source_distribution_is_in_one_directory_and_owned_by_root(self):
        with tarfile.open(self.sdist) as archive:
            members = archive.getmembers()
        base = f"keepwarm-{packages.version()}/"
        self.assertEqual([member.name for member in members if not member.name.startswith(base)], [])
        self.assertLess({base + "PKG-INFO", base + "pyproject.toml", base + "src/keepwarm/launch.py"}, {member.name for member in members})
        self.assertEqual({(member.uid, member.gid, member.mode) for member in members}, {(0, 0, 0o644)})


class Installed(Built):
    """The wheel in a new environment, without the network; then Flask beside it, from PyPI."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.venv, cls.env = cls.environment("venv", "--no-index", cls.wheel)
        cls.pip(cls.env, "flask")
        cls.site = cls.folder / "site"
        cls.site.mkdir()
        (cls.site / "app.py").write_text(HELLO)

    def test_flask_by_keepwarm_run(self):
        self.assert_serves(["keepwarm", "run", "app:app", "--bind", "127.0.0.1:0"], cwd=self.site, env=self.env, body=f"hello from {self.venv}")

    def test_flask_by_python_m_keepwarm_in_an_environment_that_is_not_active(self):
        line = [self.venv / "bin/python", "-m", "keepwarm", "run", "app:app", "--bind", "127.0.0.1:0"]
        self.assert_serves(line, cwd=self.site, env=serving.CLEAN, body=f"hello from {self.venv}")

    def test_every_command_line_is_the_programs(self):
        version = f"keepwarm {packages.version()}\n"
        for line in (["keepwarm", "--version"], ["python", "-m", "keepwarm", "--version"]):
            self.assertEqual(serving.run(line, cwd=self.site, env=self.env), version)
        self.assertIn("unrecognized subcommand 'rnu'", serving.run(["python", "-m", "keepwarm", "rnu"], cwd=self.site, env=self.env, status=2))

    def test_pip_finds_it_whole_and_removes_it_whole(self):
        where, env = self.environment("removed", "--no-index", self.wheel)
        pip = ["python", "-m", "pip", "--disable-pip-version-check"]
        self.assertIn("No broken requirements found.", serving.run([*pip, "check"], cwd=self.folder, env=env))
        self.assertIn(f"Version: {packages.version()}", serving.run([*pip, "show", "keepwarm"], cwd=self.folder, env=env))
        serving.run([*pip, "uninstall", "--yes", "--quiet", "keepwarm"], cwd=self.folder, env=env)
        self.assertEqual([str(path) for path in where.rglob("*keepwarm*")], [])

    def test_a_target_install_without_an_environment(self):
        target = self.folder / "target"
        self.pip(self.env, "--no-index", "--target", target, self.wheel)
        (self.site / "plain.py").write_text("import sys\n\ndef app(environ, start_response):\n    start_response('200 OK', [])\n    return [sys.prefix.encode()]\n")
        python = pathlib.Path(sys.base_prefix) / "bin/python3"
        line = [python, "-m", "keepwarm", "run", "plain:app", "--bind", "127.0.0.1:0"]
        self.assert_serves(line, cwd=self.site, env={**serving.CLEAN, "PYTHONPATH": str(target)}, body=sys.base_prefix)


class FromSource(Built):
    """The source distribution: without a program, which it says."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # setuptools is the build backend, which an isolated build would get by the network.
        cls.venv, cls.env = cls.environment("venv", "setuptools>=68", "wheel", "twine")
        cls.pip(cls.env, "--no-index", "--no-build-isolation", cls.sdist)

    def test_without_a_program_the_message_says_how_to_get_one(self):
        for line in (["keepwarm", "run", "app:app"], ["python", "-m", "keepwarm", "run", "app:app"]):
            said = serving.run(line, cwd=self.folder, env={**self.env, "PATH": f"{self.venv}/bin"}, status=1)
            self.assertRegex(said, r"\Akeepwarm: program `keepwarm` not found for Linux on \w+: .*KEEPWARM_BIN to its path\n\Z")

    def test_the_package_index_would_take_both(self):
        said = serving.run(["python", "-m", "twine", "--no-color", "check", "--strict", self.wheel, self.sdist], cwd=self.folder, env=self.env)
        self.assertEqual(said.count("PASSED"), 2, said)

    def test_the_wheel_says_what_setuptools_makes_of_the_sources(self):
        names = ["Name", "Version", "Summary", "License", "Classifier", "Requires-Python", "Description-Content-Type", "Provides-Extra", "Requires-Dist"]
        code = f"from importlib.metadata import metadata; print([(name, metadata('keepwarm').get_all(name)) for name in {names}])"
        installed = ast.literal_eval(serving.run(["python", "-c", code], cwd=self.folder, env=self.env))
        ours = email.message_from_bytes(wheel.metadata())
        self.assertEqual([(name, ours.get_all(name)) for name in names], installed)

    def test_the_variable_names_a_program(self):
        env = {**self.env, "KEEPWARM_BIN": serving.binary().partition("=")[2]}
        for line in (["keepwarm", "--version"], ["python", "-m", "keepwarm", "--version"]):
            self.assertEqual(serving.run(line, cwd=self.folder, env=env), f"keepwarm {packages.version()}\n")


if __name__ == "__main__":
    unittest.main()
