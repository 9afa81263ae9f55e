#!/usr/bin/env python3
"""What a request costs in a Python, Ruby or PHP worker, CPU time of its process, without a server in front.

    bench/micro/worker.py [wsgi|asgi|rack|php|symfony] [--requests N] [--depth N] [--threads N] [--instructions]

A feeder plays Keepwarm over a socket pair (spec/wire.md) and keeps DEPTH requests on their way. With a depth of 1 the next request is written when the
response to the last one has come. Unlike the instruction counts it depends on how busy the machine is: compare runs made one after the other.
With `--instructions`, valgrind counts the worker's own instructions instead, in two runs whose difference leaves the start out: about a minute, within 1 %.
Standard library only.
"""

import argparse
import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = struct.Struct(">IBBI")
WELCOME, HELLO, REQUEST, RESPONSE, END = 0x02, 0x01, 0x10, 0x13, 0x01
FIXED = [b"GET", b"HTTP/1.1", b"http", b"/", b"/", b"", b"", b"127.0.0.1", b"8080", b"127.0.0.1", b"52144"]
FIELDS = [b"host", b"127.0.0.1:8080"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=("wsgi", "asgi", "rack", "php", "symfony"), default="wsgi")
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--depth", type=int, default=1, help="requests on their way at once")
    parser.add_argument("--threads", type=int, default=1, help="of the worker")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind, of 4,000 requests")
    options = parser.parse_args()
    if options.instructions:
        few, many = (instructions(options.kind, options.depth, requests, options.threads) for requests in (1_000, 5_000))
        print(f"{(many - few) / 4_000:.0f} instructions per request")
        return
    print(f"{measure(options.kind, options.depth, options.requests, options.threads):.1f} µs of CPU per request")


def command(kind):
    if kind == "rack":
        return ["ruby", str(ROOT / "adapters/ruby/exe/keepwarm-worker"), "hello.ru"]
    if kind in ("php", "symfony"):
        functions = re.search(r"const FUNCTIONS = \[(.*?)\]", (ROOT / "adapters/php/src/Web.php").read_text(), re.DOTALL)[1]
        disabled = ",".join(re.findall(r"'(\w+)'", functions))
        entry = "hello.php" if kind == "php" else "public/index.php"
        return ["php", "-d", "opcache.enable_cli=1", "-d", f"disable_functions={disabled}", str(ROOT / "adapters/php/bin/worker.php"), entry]
    return [sys.executable, "-m", "keepwarm", f"hello:{kind}"]


def folder(kind):
    return ROOT / ("examples/symfony" if kind == "symfony" else "bench/load/apps")


def measure(kind, depth, requests, threads):
    with started(kind, threads) as (worker, ours, wire):
        feed(ours, wire, depth, 1, requests // 10)  # caches, before it counts
        before = cpu(worker.pid)
        feed(ours, wire, depth, 1 + requests // 10, requests)
        return (cpu(worker.pid) - before) / requests * 1e6


def instructions(kind, depth, requests, threads):
    """Those of a whole run."""
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory, "log")
        # Without address randomization, the same run has nearly the same count.
        valgrind = ["setarch", "-R", "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}"]
        with started(kind, threads, valgrind) as (_, ours, wire):
            feed(ours, wire, depth, 1, requests)
        return int(re.search(r"Collected : (\d+)", log.read_text())[1])


@contextlib.contextmanager
def started(kind, threads, before=()):
    """A worker that is ready; `before` comes before its command."""
    ours, theirs = socket.socketpair()
    environment = dict(
        os.environ, KEEPWARM_FD=str(theirs.fileno()), PYTHONPATH=str(ROOT / "adapters/python/src"), APP_ENV="prod", PYTHONHASHSEED="0"
    )
    more = ["--threads", str(threads)] if threads > 1 else []
    worker = subprocess.Popen([*before, *command(kind), *more], cwd=folder(kind), env=environment, pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        wire = Wire(ours)
        limits = struct.pack(">HHII", 1, 1, 1 << 20, 1 << 24)
        ours.sendall(frame(WELCOME, 0, 0, limits + block([b"app", b"hello", b"workers", b"1"])))
        wire.read(HELLO)
        yield worker, ours, wire
    finally:
        ours.close()
        worker.wait(60)


def feed(ours, wire, depth, stream, requests):
    """Sends `requests` requests from stream id `stream` on, at most `depth` of them without a response."""
    body = struct.pack(">Q", 0) + block(FIXED + FIELDS)
    sent = received = 0
    while received < requests:
        while sent < requests and sent - received < depth:
            ours.sendall(frame(REQUEST, END, stream + sent, body))
            sent += 1
        wire.read(RESPONSE)
        received += 1


class Wire:
    """Frames as they come."""

    def __init__(self, socket):
        self.socket = socket
        self.unread = b""

    def read(self, wanted):
        while len(self.unread) < HEADER.size or len(self.unread) < HEADER.size + HEADER.unpack_from(self.unread)[0]:
            got = self.socket.recv(65536)
            if not got:
                raise SystemExit("the worker has gone; its own words are above")
            self.unread += got
        length, kind, _, _ = HEADER.unpack_from(self.unread)
        self.unread = self.unread[HEADER.size + length:]
        if kind != wanted:
            raise SystemExit(f"a frame of type {kind:#x} instead of {wanted:#x}")


def frame(kind, flags, stream, payload):
    return HEADER.pack(len(payload), kind, flags, stream) + payload


def block(strings):
    text = b"\0".join(strings)
    return struct.pack(">HI", len(strings), len(text)) + text


def cpu(pid):
    """Seconds of CPU, user and system, that a process has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
