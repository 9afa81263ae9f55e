"""`python -m keepwarm` without a worker's descriptor: which program it becomes, and with which interpreter for workers."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import venv

from tests import driver

PACKAGE = driver.SOURCE / "keepwarm"


class Launch(unittest.TestCase):
    """With copies of `echo` and `env` in place of the program: they show the arguments and the variables that they get."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def launch(self, *arguments, python=sys.executable, status=0, **env):
        done = subprocess.run(
            [python, "-m", "keepwarm", *arguments], cwd=self.folder, env={"PYTHONPATH": str(driver.SOURCE), "PATH": "/usr/bin:/bin", **env},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def program(self, path, name="echo"):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(shutil.which(name, path="/usr/bin:/bin"), path)
        return str(path)

    def variables(self, **more):
        """Those that the program gets."""
        return dict(line.split("=", 1) for line in self.launch(KEEPWARM_BIN=self.program("env", "env"), **more).splitlines())

    def test_arguments_and_exit_status_are_the_programs(self):
        program = self.program("echo")
        self.assertEqual(self.launch("run", "app:app", "--bind", "a b", KEEPWARM_BIN=program), "run app:app --bind a b\n")
        self.assertEqual(self.launch(KEEPWARM_BIN=program), "\n")
        self.launch(status=1, KEEPWARM_BIN=self.program("false", "false"))

    def test_a_relative_variable_is_relative_to_the_current_directory(self):
        self.program("echo")
        self.assertEqual(self.launch("status", KEEPWARM_BIN="./echo"), "status\n")

    def test_a_wrong_variable_is_an_error_and_not_another_program(self):
        self.program("bin/keepwarm")
        (self.folder / "script").write_text("#!/bin/sh\n")
        (self.folder / "script").chmod(0o755)
        plain = pathlib.Path(self.program("plain"))
        plain.chmod(0o644)
        for wrong in ("/nowhere/keepwarm", str(self.folder), str(self.folder / "script"), *([str(plain)] if os.getuid() else [])):
            said = self.launch(status=1, KEEPWARM_BIN=wrong, PATH=f"{self.folder}/bin")
            self.assertEqual(said, f"keepwarm: KEEPWARM_BIN={wrong} is not an executable program; set it to the path of the program `keepwarm`, or unset it\n")

    def test_the_program_beside_a_target_install(self):
        shutil.copytree(PACKAGE, self.folder / "vendor/keepwarm")
        self.program("vendor/bin/keepwarm")
        self.program("elsewhere/keepwarm", "false")
        said = self.launch("status", PYTHONPATH=str(self.folder / "vendor"), PATH=f"{self.folder}/elsewhere")
        self.assertEqual(said, "status\n")

    def test_the_program_of_a_prefix_install(self):
        library = self.folder / "prefix/lib/python3.11/site-packages"
        shutil.copytree(PACKAGE, library / "keepwarm")
        self.program("prefix/bin/keepwarm")
        self.assertEqual(self.launch("status", PYTHONPATH=str(library)), "status\n")

    def test_the_program_of_the_user(self):
        self.program(".local/bin/keepwarm")
        self.assertEqual(self.launch("status", HOME=str(self.folder)), "status\n")

    def test_the_program_of_the_environment(self):
        self.assertEqual(self.launch("status", python=self.environment("venv"), PATH=""), "status\n")

    def test_the_program_in_path_comes_last(self):
        self.program("path/keepwarm")
        self.assertEqual(self.launch("status", PATH=f"/nowhere::{self.folder}/path"), "status\n")

    def test_scripts_of_the_same_name_are_passed_over(self):
        script = self.folder / "first/keepwarm"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\nexec {sys.executable} -m keepwarm\n")
        script.chmod(0o755)
        self.program("second/keepwarm")
        self.assertEqual(self.launch("status", PATH=f"{self.folder}/first:{self.folder}/second"), "status\n")

    def test_no_program_is_an_error_with_the_ways_out(self):
        said = self.launch("run", "app:app", status=1, PATH="/nowhere", HOME=str(self.folder))
        self.assertRegex(said, r"\Akeepwarm: program `keepwarm` not found for Linux on \w+: it is neither in PATH nor in .*/bin.*; .*KEEPWARM_BIN to its path\n\Z")
        self.assertIn(f"{self.folder}/.local/bin", said)

    def test_a_program_of_another_machine(self):
        program = pathlib.Path(self.program("other"))
        content = bytearray(program.read_bytes())
        content[18:20] = b"\x02\x00"  # SPARC
        program.write_bytes(content)
        said = self.launch(status=1, KEEPWARM_BIN=str(program))
        self.assertRegex(said, rf"\Akeepwarm: {program} cannot be run: Exec format error; set KEEPWARM_BIN to one that this system \(\w+\) can run\n\Z")

    def environment(self, name):
        venv.create(self.folder / name, symlinks=True, with_pip=False)
        self.program(f"{name}/bin/keepwarm")
        return str(self.folder / name / "bin/python")

    def test_workers_of_a_virtual_environment(self):
        python = self.environment("venv")
        for outer in ("", "/another"):
            found = self.variables(python=python, VIRTUAL_ENV=outer)
            self.assertEqual(found["VIRTUAL_ENV"], str(self.folder / "venv"))
            self.assertEqual(found["PATH"], "/usr/bin:/bin")

    def test_workers_of_another_interpreter_than_that_of_path(self):
        python = self.base_interpreter()
        found = self.variables(python=python, VIRTUAL_ENV="/another", PATH="/nowhere")
        self.assertNotIn("VIRTUAL_ENV", found)
        self.assertEqual(found["PATH"], f"{os.path.dirname(python)}:/nowhere")

    def test_path_stays_when_its_python3_is_this_one(self):
        python = self.base_interpreter()
        path = f"/nowhere:{os.path.dirname(python)}"
        self.assertEqual(self.variables(python=python, PATH=path)["PATH"], path)

    def base_interpreter(self):
        """That of the environment that the tests run in, outside of it."""
        code = "import sys; print(sys.executable)"
        python = os.path.join(sys.base_prefix, "bin/python3")
        done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def test_signals_are_those_of_a_fresh_process(self):
        code = (
            "import os, sys; os.environ['KEEPWARM_BIN'] = sys.argv[1]; sys.argv[1:] = ['SigIgn', '/proc/self/status']; "
            "from keepwarm import launch; sys.exit(launch.main())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, self.program("grep", "grep")], env={"PYTHONPATH": str(driver.SOURCE)}, capture_output=True, text=True, timeout=60
        )
        ignored = int(done.stdout.split()[1], 16) & 0x7FFF_FFFF  # not those above 31, of which libc has two of its own
        # Under `nohup` one is ignored here, too; these two Python ignores by itself.
        inherited = [one for one in range(1, 32) if signal.getsignal(one) is signal.SIG_IGN and one not in (signal.SIGPIPE, signal.SIGXFSZ)]
        self.assertEqual(ignored, sum(1 << (one - 1) for one in inherited), done.stdout + done.stderr)

    def test_a_worker_does_not_load_it(self):
        with driver.Worker("validated_app", interpreter=["-X", "importtime"]) as worker:
            log = worker.raw_log()
        self.assertRegex(log, r"(?m)\| +keepwarm\.target$")
        self.assertNotIn("keepwarm.launch", log)


if __name__ == "__main__":
    unittest.main()
