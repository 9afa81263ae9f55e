"""For the tests of packages: starts what a package has installed, reads its pages, and sees that no process is left."""

import http.client
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid

PACKAGING = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGING))
# What is tested does not depend on how small an archive is. Set before the packages are imported, here and in their commands.
QUICK = {"KEEPWARM_PACKAGE_COMPRESSION": "1"}
os.environ.update(QUICK)

import packages  # noqa: E402

LIMIT = 60  # seconds for each step; the machine may be busy
MARK = "KEEPWARM_PACKAGE_TEST"  # in the environment of every process that a test starts
# The environment of a person who has just logged in: nothing of the tests' own interpreter or bundle.
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def binary():
    """The program to package: `KEEPWARM_BINARY`, as `ARCH=PATH`."""
    path = os.environ.get("KEEPWARM_BINARY")
    if not path:
        raise AssertionError("KEEPWARM_BINARY is not set: set it to the path of the program `keepwarm` to package")
    return f"{os.uname().machine}={os.path.abspath(path)}"


def directory(add_cleanup):
    """A new directory that workers of another user can enter, until the clean-up."""
    folder = tempfile.TemporaryDirectory()
    add_cleanup(folder.cleanup)
    path = pathlib.Path(folder.name).resolve()
    path.chmod(0o755)
    return path


def run(command, *, cwd, env, status=0):
    """Runs a command to its end; gives its output, both streams. Another exit status than `status` is a failure."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * LIMIT
    )
    if done.returncode != status:
        raise AssertionError(f"{command}: exit status {done.returncode}, expected {status}; output:\n{done.stdout}")
    return done.stdout


def build(command, out, umask="022"):
    """Runs the command of a format; gives the SHA-256 of each file that it has written, by name."""
    line = [sys.executable, PACKAGING / command, "--binary", binary(), "--out", out]
    printed = run(["sh", "-c", 'umask "$0"; exec "$@"', umask, *line], cwd="/", env={**CLEAN, **QUICK})
    sums = {name: digest for digest, name in (row.split("  ") for row in printed.splitlines())}
    for name, digest in sums.items():
        if packages.sha256((out / name).read_bytes()) != digest:
            raise AssertionError(f"{name}: {digest} is not its SHA-256")
    return sums


class Served:
    """A Keepwarm that `command` starts, as a context: ready when it listens, stopped at the end, with all its processes.

    The command is the documented line. `--bind 127.0.0.1:0` in it gives a free port, which is read from its output.
    """

    def __init__(self, command, *, cwd, env):
        self.command = [str(part) for part in command]
        self.cwd = cwd
        self.mark = uuid.uuid4().hex
        self.env = {**env, MARK: self.mark}
        self.output = ""

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            self.port = int(self.wait_for(r"listening on \w+://[^\s:]+:(\d+)")[1])
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.stop()
        finally:
            self.kill()
            if error is not None:
                error.add_note(f"output of {self.command}:\n{self.output}")

    def wait_for(self, pattern):
        """Reads its output until the pattern matches."""
        deadline = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.output)):
            if not self.read(deadline - time.monotonic()):
                raise AssertionError(f"{self.command}: no {pattern!r} in its output:\n{self.output}")
        return found

    def read(self, seconds):
        """One piece of output; False at its end, and when the time is over."""
        ready, _, _ = select.select([self.process.stdout], [], [], max(seconds, 0))
        piece = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
        self.output += piece.decode(errors="replace")
        return bool(piece)

    def get(self, path="/"):
        """The status and the body of a page."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def stop(self, number=signal.SIGTERM, status=0):
        """Sends the signal; the exit status must be `status`, and no process may be left."""
        self.process.send_signal(number)
        deadline = time.monotonic() + LIMIT
        while self.read(deadline - time.monotonic()):
            pass
        found = self.process.wait(timeout=max(deadline - time.monotonic(), 1))
        if found != status:
            raise AssertionError(f"{self.command}: exit status {found} after signal {number}, expected {status}; output:\n{self.output}")
        if left := self.left():
            raise AssertionError(f"{self.command}: left processes {left}; output:\n{self.output}")

    def left(self):
        """Processes that were started from this one and still run, by the mark in their environment."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except (OSError, ProcessLookupError):
                continue  # it has ended meanwhile, or is another user's
        return found

    def kill(self):
        for number, _ in self.left():
            try:
                process = os.pidfd_open(number)
            except ProcessLookupError:
                continue
            try:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], LIMIT)  # readable once it has ended
            except ProcessLookupError:
                pass
            finally:
                os.close(process)
        self.process.wait()
        self.process.stdout.close()
