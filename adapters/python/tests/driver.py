"""The worker of this adapter, on a wire that the test holds the other end of (spec/wire_driver.py)."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src"
APPS = TESTS / "apps"
sys.path.insert(0, str(TESTS.parents[2] / "spec"))

import wire_driver  # noqa: E402
from wire_driver import (  # noqa: E402, F401
    CHUNKED, EARLY_HINTS, END, EXPECT, NUMBERS, PATIENCE, REPEATS, TRAILERS, TYPES, USER, WEBSOCKET, Response, Frame, block, is_over, pack,
    pairs, unblock,
)  # fmt: skip


class Worker(wire_driver.Worker):
    """A worker process, started as `keepwarm run` starts it. Use it in a `with`, or call `stop`."""

    def log(self):
        """As Keepwarm has it: without the marks of lines that belong to the one before (spec/wire.md §1)."""
        return self.raw_log().replace("\x1f\n", "\n")

    def raw_log(self):
        """As the worker has written it."""
        return super().log()

    def __init__(self, target, *options, env=None, cwd=APPS, interpreter=(), **more):
        command = [sys.executable, *interpreter, "-m", "keepwarm", target, *options]
        super().__init__(command, cwd=cwd, env={"PYTHONPATH": str(SOURCE), **(env or {})}, **more)
