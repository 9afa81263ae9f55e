#!/usr/bin/env python3
"""Causes real incidents and checks that `keepwarm why` names each within 15 s, and nothing else.

    bench/incidents/why/run.py BINARY [INCIDENT ...]

An incident has a server of its own on a free port, load from threads of this program, and one expected verdict.
Standard library only. Exits with status 1 if a verdict is missing, or another stands beside it.
"""

import contextlib
import dataclasses
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

WITHIN = 15
CORES = os.cpu_count() or 1
APP = """
import os, time, urllib.request
kept = []
def application(environ, start_response):
    path = environ['PATH_INFO']
    if path == '/sleep':
        time.sleep(3)
    if path == '/compute':
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
    if path == '/leak':
        kept.append(bytearray(os.urandom(4096)) * 2048)
    if path == '/call':
        try:
            urllib.request.urlopen(os.environ['KEEPWARM_UPSTREAM_SEARCH'] + '/', timeout=20).read()
        except OSError:
            pass
    body = b'pong' if path != '/large' else bytes(16 << 20)
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
    return [body]
"""
CONFIG = """
[listen.main]
bind = "127.0.0.1:{port}"
{routes}
[app.app]
entry = "app:application"
interpreter = "{python}"
{keys}
queue_timeout = "30s"
[upstream.search]
url = "http://127.0.0.1:{upstream}"
bind = "127.0.0.2:0"
"""
ROUTE = '[[listen.main.route]]\npath = "{}"\napp = "app"\n'



@dataclasses.dataclass
class Incident:
    """A load that causes it, and the verdict; `None`: nothing is wrong."""

    verdict: object
    # Paths, with the clients that ask for each, one request after the other.
    load: dict
    routes: tuple = ("/*",)
    # Seconds without load, for what is measured against the time before.
    quiet: int = 3
    # What the upstream does: "sleep", "close" each connection, or nothing: it refuses connections.
    upstream: object = None
    # Keys of the app.
    keys: str = ""
    # Seconds between two requests of a client, and between two reads of 1 MiB.
    pause: float = 0.0
    slow: float = 0.0
    # Programs beside it that compute.
    hogs: int = 0


INCIDENTS = {
    "sleeping-upstream": Incident("upstream_slow", {"/call": 6, "/": 1}, upstream="sleep"),
    "refusing-upstream": Incident("upstream_failing", {"/call": 2, "/": 1}),
    "closing-upstream": Incident("handshakes_per_call", {"/call": 2}, upstream="close", pause=0.02),
    "route-holds-workers": Incident("route_holds_workers", {"/sleep": 4, "/": 4}, routes=("/sleep", "/*")),
    "too-few-workers": Incident("too_few_workers", {"/sleep": 8}),
    "too-few-cores": Incident("too_few_cores", {"/compute": 4 * CORES}, keys=f"workers = {CORES}"),
    "noisy-neighbour": Incident("noisy_neighbour", {"/compute": 4 * CORES}, keys=f"workers = {CORES}", hogs=4 * CORES),
    "slow-clients": Incident("slow_clients", {"/large": 6}, slow=0.2),
    "leaking-app": Incident("memory_growth", {"/leak": 1}, quiet=25),
    "boot-per-request": Incident("boot_per_request", {"/": 1}, keys="max_requests = 1", pause=1.0),
    "healthy": Incident(None, {"/": 4}),
}


def main(binary, wanted):
    unknown = [name for name in wanted if name not in INCIDENTS]
    if unknown:
        raise SystemExit(f"no incident {', '.join(unknown)}; there are: {', '.join(INCIDENTS)}")
    failed = [name for name in wanted or INCIDENTS if not is_named(binary, name, INCIDENTS[name])]
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def is_named(binary, name, incident):
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peer, port = stack.enter_context(Upstream(incident.upstream)), free_port()
        (directory / "app.py").write_text(APP)
        routes = "".join(map(ROUTE.format, incident.routes))
        keys = incident.keys if "workers" in incident.keys else f"workers = 2\n{incident.keys}"
        text = CONFIG.format(port=port, routes=routes, python=sys.executable, keys=keys, upstream=peer.port)
        (directory / "keepwarm.toml").write_text(text)
        with open(directory / "log", "wb") as log:
            server = [binary, "run"]
            stack.enter_context(running(server, cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        over = threading.Event()
        stack.callback(over.set)
        wait_until_served(port)
        request(port, "/")
        time.sleep(incident.quiet)
        for _ in range(incident.hogs):
            # A session of its own, because the kernel shares processors out between sessions (sched_autogroup).
            stack.enter_context(running([sys.executable, "-c", "while True: pass"], start_new_session=True))
        for path, count in incident.load.items():
            for _ in range(count):
                threading.Thread(target=client, args=(port, path, over, incident), daemon=True).start()
        return watch(binary, directory, name, incident.verdict)


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def watch(binary, directory, name, verdict):
    """Looks once a second: the first verdict is the expected one, and stays alone until the time is over."""
    began, first = time.monotonic(), None
    while time.monotonic() - began < WITHIN:
        findings = why(binary, directory)["findings"]
        found = [finding["id"] for finding in findings]
        if found and first is None:
            first = time.monotonic() - began
        if [found_id for found_id in found if found_id != verdict]:
            evidence = "; ".join(finding["evidence"] for finding in findings)
            print(f"{name}: {', '.join(found)} in place of {verdict or 'nothing'}: {evidence}")
            return False
        time.sleep(1)
    after = f"{first:.0f} s" if first is not None else "-"
    print(f"{name}: {verdict or 'nothing'} after {after}")
    return (first is None) == (verdict is None)


def why(binary, directory):
    shown = subprocess.run([binary, "why", "--json"], cwd=directory, stdout=subprocess.PIPE, check=False)
    return json.loads(shown.stdout)


def client(port, path, over, incident):
    while not over.wait(incident.pause):
        request(port, path, incident.slow)


def request(port, path, slow=0.0):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            while response.read(1 << 20):
                time.sleep(slow)
    except OSError:
        # A server that is stopped at the end of its incident, or its response to an upstream's failure.
        time.sleep(0.1)


def wait_until_served(port):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not listen")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Upstream:
    """Another service that takes 2 s for a response, closes each connection after one, or refuses connections."""

    def __init__(self, kind):
        handler = {"sleep": Sleeping, "close": Closing}.get(kind)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) if handler else None
        self.port = self.server.server_address[1] if self.server else free_port()

    def __enter__(self):
        if self.server:
            self.server.daemon_threads = True
            threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.shutdown()
            self.server.server_close()


class Sleeping(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    takes = 2

    def do_GET(self):
        time.sleep(self.takes)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Closing(Sleeping):
    protocol_version = "HTTP/1.0"
    takes = 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
