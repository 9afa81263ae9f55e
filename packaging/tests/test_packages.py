"""What all formats share: archives, times, the version, the command line; and the tests' own means to see what is left."""

import io
import os
import signal
import sys
import tarfile
import unittest
import unittest.mock
import zipfile

import serving

import packages
from packages import Entry

ENTRIES = [Entry("b/run", b"#!/bin/sh\n", packages.EXECUTABLE), Entry("a", b"text")]


class Archives(unittest.TestCase):
    def setUp(self):
        packages.epoch.cache_clear()
        self.addCleanup(packages.epoch.cache_clear)
        variable = unittest.mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "1700000001"})
        variable.start()
        self.addCleanup(variable.stop)

    def test_a_tar_is_sorted_and_has_one_owner_and_time(self):
        content = packages.tar(ENTRIES)
        self.assertEqual(content, packages.tar(reversed(ENTRIES)))
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = [(member.name, member.mode, member.mtime, member.uid, member.gid, member.uname) for member in archive]
        self.assertEqual(found, [("a", 0o644, 1700000001, 0, 0, ""), ("b/run", 0o755, 1700000001, 0, 0, "")])

    def test_a_zip_is_sorted_unless_its_order_matters(self):
        content = packages.zipped(ENTRIES)
        self.assertEqual(content, packages.zipped(reversed(ENTRIES)))
        archive = zipfile.ZipFile(io.BytesIO(content))
        self.assertEqual([member.filename for member in archive.infolist()], ["a", "b/run"])
        self.assertEqual([member.external_attr >> 16 for member in archive.infolist()], [0o100644, 0o100755])
        self.assertEqual({member.date_time for member in archive.infolist()}, {(2023, 11, 14, 22, 13, 20)})  # in steps of 2 s
        self.assertEqual(zipfile.ZipFile(io.BytesIO(packages.zipped(ENTRIES, ordered=True))).namelist(), ["b/run", "a"])

    def test_a_time_before_that_of_zip_is_its_first(self):
        packages.epoch.cache_clear()
        with unittest.mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "1"}):
            (member,) = zipfile.ZipFile(io.BytesIO(packages.zipped(ENTRIES[:1]))).infolist()
        self.assertEqual(member.date_time, (1980, 1, 1, 0, 0, 0))

    def test_gzip_has_no_time_and_no_name(self):
        self.assertEqual(packages.gzipped(b"text")[3:8], bytes(5))

    def test_a_wrong_time(self):
        for wrong in ("yesterday", "-1", "1.5", "\u0661"):
            packages.epoch.cache_clear()
            with unittest.mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": wrong}):
                with self.assertRaisesRegex(packages.PackagingError, f"SOURCE_DATE_EPOCH={wrong}: expected seconds since 1970"):
                    packages.epoch()

    def test_without_git_and_variable_there_is_no_time(self):
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            del os.environ["SOURCE_DATE_EPOCH"]
            with self.assertRaisesRegex(packages.PackagingError, "not a git checkout; set SOURCE_DATE_EPOCH"):
                packages.epoch()


class Inputs(unittest.TestCase):
    def setUp(self):
        self.folder = serving.directory(self.addCleanup)

    def test_an_adapter_of_another_version(self):
        adapter = "adapters/python/src/keepwarm/__init__.py"
        for name, text in [("Cargo.toml", '[workspace.package]\nversion = "1.2.3"\n'), (adapter, '__version__ = "1.2.2"\n')]:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        with unittest.mock.patch.object(packages, "ROOT", self.folder):
            with self.assertRaisesRegex(packages.PackagingError, f"{adapter}: found 1.2.2, expected 1.2.3, the version in Cargo.toml"):
                packages.version()

    def test_a_tree_leaves_out_caches_hidden_files_and_other_suffixes(self):
        for name in ("keep/a.py", "keep/a.txt", "keep/__pycache__/a.py", ".hidden/a.py", "keep/.b.py"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(name)
        (self.folder / "keep/a.py").chmod(0o770)
        self.assertEqual(packages.tree(self.folder, "in/", {".py"}), [Entry("in/keep/a.py", b"keep/a.py", 0o755)])

    def test_a_wrong_binary_is_named_and_nothing_is_written(self):
        (self.folder / "text").write_text("#!/bin/sh\n")
        for binary, expected in [
            ("x86_64", "expected ARCH=PATH, where ARCH is x86_64 or aarch64"),
            ("i386=text", "expected ARCH=PATH, where ARCH is x86_64 or aarch64"),
            ("x86_64=missing", "No such file or directory; build the binary first, or correct the path"),
            ("x86_64=.", "Is a directory; build the binary first, or correct the path"),
            ("x86_64=text", "not a 64-bit little-endian ELF program; expected the program `keepwarm`"),
        ]:
            line = [sys.executable, serving.PACKAGING / "wheel.py", "--binary", binary, "--out", "out"]
            said = serving.run(line, cwd=self.folder, env=serving.CLEAN, status=1)
            self.assertEqual(said, f"packaging: --binary {binary}: {expected}\n")
            self.assertFalse((self.folder / "out").exists())

    def test_an_architecture_given_twice(self):
        line = [sys.executable, serving.PACKAGING / "wheel.py", *["--binary", serving.binary()] * 2, "--out", "out"]
        said = serving.run(line, cwd=self.folder, env=serving.CLEAN, status=1)
        self.assertEqual(said, f"packaging: --binary: {os.uname().machine} given twice; give each architecture once\n")


class Left(unittest.TestCase):
    """`serving.Served` finds what a server leaves."""

    def serve(self, script):
        script = f"trap 'exit 3' TERM; {script} & echo listening on http://127.0.0.1:1; wait"
        return serving.Served(["sh", "-c", script], cwd="/", env=serving.CLEAN)

    def test_a_process_that_outlives_it(self):
        with self.assertRaisesRegex(AssertionError, r"left processes \[\(\d+, '.*sleep 1000"):
            with self.serve("setsid sleep 1000 >/dev/null 2>&1") as served:
                served.stop(status=3)
        self.assertEqual(served.left(), [])

    def test_another_exit_status(self):
        with self.assertRaisesRegex(AssertionError, "exit status 3 after signal 15, expected 0"):
            with self.serve("sleep 1000 >/dev/null 2>&1") as served:
                served.stop(signal.SIGTERM)

    def test_one_that_does_not_listen(self):
        with self.assertRaisesRegex(AssertionError, "no 'listening on .* in its output:\nno app\n"):
            with serving.Served(["echo", "no app"], cwd="/", env=serving.CLEAN):
                self.fail("it listens")

    def test_a_binary_that_is_not_given(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("KEEPWARM_BINARY", None)
            with self.assertRaisesRegex(AssertionError, "KEEPWARM_BINARY is not set"):
                serving.binary()


if __name__ == "__main__":
    unittest.main()
