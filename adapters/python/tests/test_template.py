"""The template of `preload`, and the workers that it forks (spec/wire.md §9)."""

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from tests import driver
from tests.driver import PATIENCE, pack


class Forked(driver.wire_driver.Worker):
    """A worker that a template forks; the template is a process of its own."""

    def __init__(self, target):
        self.mine, theirs = socket.socketpair()
        self.control, control = socket.socketpair()
        for one in (self.mine, self.control):
            one.settimeout(PATIENCE)
        self.log_file = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "keepwarm", target, "--preload"], stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file,
            cwd=driver.APPS, env=dict(os.environ, PYTHONPATH=str(driver.SOURCE), KEEPWARM_FD=str(control.fileno())), pass_fds=[control.fileno()],
            start_new_session=True,
        )  # fmt: skip
        control.close()
        self.buffer, self.stream, self.responses, self.held, self.auto_credit = b"", 0, {}, [], True
        self.line(b"ready\n")
        output = self.log_file.fileno()
        socket.send_fds(self.control, [b"fork 1\n"], [theirs.fileno(), output, output])
        theirs.close()
        self.line(b"forked ")
        about = driver.block(["app", "test", "worker", "1", "workers", "1", "software", "keepwarm/0.0.1"])
        self.send(pack("WELCOME", payload=struct.pack(">HHII", 1, 1, 65_536, 1 << 20) + about))
        self.hello = self.read()

    def line(self, begins):
        said = self.control.recv(4096)
        if not said.startswith(begins):
            raise AssertionError(f"{said!r} instead of {begins!r}; its log:\n{self.log()}")

    def stop(self):
        self.control.close()
        super().stop()


class Templates(unittest.TestCase):
    def test_programs_that_a_worker_starts_do_not_inherit_its_wire(self):
        with Forked("wsgi_app") as worker:
            inherited = json.loads(worker.get("/inherited").body)
            self.assertEqual([one for one in inherited if one.startswith("socket:")], [])

    def test_a_library_that_ends_its_threads_before_a_fork_is_no_obstacle(self):
        """NumPy's: it starts them when it is imported, on every machine with more than one core."""
        with Forked("native_app") as worker:
            self.assertEqual(worker.get("/").body, b"served")
            self.assertEqual(worker.log(), "")

    def test_a_library_that_keeps_its_threads_is_one(self):
        mine, control = socket.socketpair()
        with mine, control:
            done = subprocess.run(
                [sys.executable, "-m", "keepwarm", "native_app", "--preload"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=PATIENCE, cwd=driver.APPS, pass_fds=[control.fileno()],
                env=dict(os.environ, PYTHONPATH=str(driver.SOURCE), KEEPWARM_FD=str(control.fileno()), STAYS="1"),
            )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a library of the application started 1 native thread while loading, and keeps it at a fork", done.stderr)


if __name__ == "__main__":
    unittest.main()
