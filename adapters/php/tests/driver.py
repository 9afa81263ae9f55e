"""The worker of this adapter, on a wire that the test holds the other end of (spec/wire_driver.py)."""

import os
import pathlib
import re
import sys
import urllib.parse

TESTS = pathlib.Path(__file__).resolve().parent
ADAPTER = TESTS.parent
APPS = TESTS / "apps"
sys.path.insert(0, str(ADAPTER.parents[1] / "spec"))

import wire_driver  # noqa: E402
from wire_driver import (  # noqa: E402, F401
    CHUNKED, EARLY_HINTS, END, EXPECT, PATIENCE, REPEATS, TRAILERS, USER, WEBSOCKET, block, is_over, pack, pairs, unblock,
)  # fmt: skip

PHP = os.environ.get("PHP", "php")


def disabled():
    """The functions that `keepwarm run` starts PHP without, so that the adapter can define them."""
    names = re.search(r"FUNCTIONS = \[(.*?)\];", (ADAPTER / "src" / "Web.php").read_text(), re.S).group(1)
    return ",".join(re.findall(r"'(\w+)'", names))


# What the machine's php.ini for the web has would make a difference.
UNBUFFERED = ("-d", "output_buffering=0")


def command(entry, *options, own=UNBUFFERED):
    """As `keepwarm run` starts a worker."""
    always = ["-d", "opcache.enable_cli=1", "-d", "disable_functions=" + disabled()]
    return [PHP, *always, *own, *options, str(ADAPTER / "bin" / "worker.php"), entry]


class Worker(wire_driver.Worker):
    """A worker process, started as `keepwarm run` starts it. Use it in a `with`, or call `stop`."""

    def __init__(self, entry, *options, cwd=APPS, own=UNBUFFERED, **more):
        super().__init__(command(entry, *options, own=own), cwd=cwd, **more)

    def post(self, path, form, **more):
        """A form and its response."""
        body = form if isinstance(form, bytes) else urllib.parse.urlencode(form).encode()
        fields = [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(body)))]
        return self.get(path, method="POST", body=body, fields=fields, **more)
