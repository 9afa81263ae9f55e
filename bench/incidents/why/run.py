#!/usr/bin/env python3
"""Causes real incidents and checks that `keepwarm why` names each within 15 s, and nothing else.

    bench/incidents/why/run.py [--healthy SECONDS] BINARY [INCIDENT ...]

An incident has a server of its own on a free port, load from threads of this program, and one expected verdict.
`--healthy`: how long the healthy server is watched, 15 s without it. README.md has the figures of ten minutes.
Standard library only. Exits with status 1 if a verdict is missing, or another stands beside it.
"""

import argparse
import contextlib
import dataclasses
import http.server
import json
import os
import pathlib
import socket
import statistics
import struct
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
    if path == '/raise':
        raise ValueError('as it was told')
    if path == '/die':
        os.kill(os.getpid(), 9)
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
    if path == '/upload':
        environ['wsgi.input'].read()
    body = b'pong' if path != '/large' else bytes(16 << 20)
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
    return [body]
"""
LEAK = """
inner = application
def application(environ, start_response):
    kept.append(bytearray(os.urandom(4096)) * 2048)
    return inner(environ, start_response)
"""
CONFIG = """
{server}
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
    # What the upstream does: "sleep", "close" each connection, "forget" idle ones, or nothing: it refuses connections.
    upstream: object = None
    # Keys of the app, and sections of the server.
    keys: str = ""
    server: str = ""
    # A reload, after the quiet, to a release that leaks.
    leaks: bool = False
    # Seconds until the verdict, where its threshold needs more than 15 s of the incident.
    within: int = WITHIN
    # Seconds between two requests of a client, and between two reads of 1 MiB.
    pause: float = 0.0
    slow: float = 0.0
    # Programs beside it that compute.
    hogs: int = 0
    # Cores that its control group may use; needs root.
    limit: float = 0.0
    # The size of the disk of its temporary directory; needs root.
    disk: str = ""


INCIDENTS = {
    "sleeping-upstream": Incident("upstream_slow", {"/call": 6, "/": 1}, upstream="sleep"),
    "refusing-upstream": Incident("upstream_failing", {"/call": 2, "/": 1}),
    "closing-upstream": Incident("handshakes_per_call", {"/call": 2}, upstream="close", pause=0.02),
    "route-holds-workers": Incident("route_holds_workers", {"/sleep": 4, "/": 4}, routes=("/sleep", "/*")),
    "too-few-workers": Incident("too_few_workers", {"/sleep": 8}),
    "too-few-cores": Incident("too_few_cores", {"/compute": 4 * CORES}, keys=f"workers = {CORES}"),
    "noisy-neighbour": Incident("noisy_neighbour", {"/compute": 4 * CORES}, keys=f"workers = {CORES}", hogs=4 * CORES),
    "cpu-limit": Incident("cpu_limit", {"/compute": 4}, limit=0.5),
    "slow-clients": Incident("slow_clients", {"/large": 6}, slow=0.2),
    "leaking-app": Incident("memory_growth", {"/leak": 1}, quiet=25),
    "boot-per-request": Incident("boot_per_request", {"/": 1}, keys="max_requests = 1", pause=1.0),
    # Two minutes in all. The old workers are watched for as long as a rate needs (33 s). The first 20 s of the new ones
    # are their start, in which no memory is growth.
    "leak-after-reload": Incident("leak_after_reload", {"/": 1}, quiet=40, pause=0.2, leaks=True, within=20 + WITHIN),
    # Three losses in different steps of 10 s: after each, Keepwarm uses no connection that has been idle for as long
    # until it tries again, 10 s later and then 20 s later.
    "timeout-ladder": Incident("timeout_ladder", {"/call": 1}, upstream="forget", pause=1.5, within=60),
    "spill-limit": Incident(
        "spill_limit", {"/large": 8}, slow=0.2, within=30, server='[server.limits]\nspill = "8MiB"\nspill_memory = "1MiB"'
    ),
    "failing-app": Incident("app_failing", {"/raise": 1, "/": 1}, pause=0.1),
    "crashing-workers": Incident("workers_crash", {"/die": 1, "/": 1}, pause=0.5),
    "spill-disk": Incident("spill_disk", {"/large": 4}, slow=0.2, disk="2m"),
    "connection-limit": Incident("connection_limit", {"/slow": 4, "/": 2}, server="[server.limits]\nconnections = 4"),
    "client-waits": Incident("client_waits", {"/upload": 1, "/old": 1, "/": 1}, pause=0.5),
    "healthy": Incident(None, {"/": 4 * CORES}),
}


def main(options):
    unknown = [name for name in options.incidents if name not in INCIDENTS]
    if unknown:
        raise SystemExit(f"no incident {', '.join(unknown)}; there are: {', '.join(INCIDENTS)}")
    binary = str(options.binary.resolve())
    INCIDENTS["healthy"].within = options.healthy
    wanted = options.incidents or list(INCIDENTS)
    failed = [name for name in wanted if not is_named(binary, name, INCIDENTS[name])]
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def is_named(binary, name, incident):
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peer, port = stack.enter_context(Upstream(incident.upstream)), free_port()
        (directory / "app.py").write_text(APP)
        (directory / "keepwarm.toml").write_text(configuration(incident, port, peer.port))
        with open(directory / "log", "wb") as log:
            server = [binary, "run"]
            if incident.limit:
                group = stack.enter_context(control_group(incident.limit))
                server = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"), *server]
            if incident.disk:
                (directory / "disk").mkdir()
                mount = f'mount -t tmpfs -o size={incident.disk} tmpfs disk && TMPDIR=$PWD/disk exec "$@"'
                server = ["unshare", "--mount", "sh", "-c", mount, "sh", *server]
            stack.enter_context(running(server, cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        over = threading.Event()
        stack.callback(over.set)
        wait_until_served(port)
        request(port, "/")
        if incident.leaks:
            begin_load(port, over, incident)
        time.sleep(incident.quiet)
        for _ in range(incident.hogs):
            # A session of its own, because the kernel shares processors out between sessions (sched_autogroup).
            stack.enter_context(running([sys.executable, "-c", "while True: pass"], start_new_session=True))
        if incident.leaks:
            (directory / "app.py").write_text(APP + LEAK)
            subprocess.run([binary, "reload"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        else:
            begin_load(port, over, incident)
        return watch(binary, directory, name, incident)


def configuration(incident, port, upstream):
    return CONFIG.format(
        server=incident.server,
        port=port,
        routes="".join(map(ROUTE.format, incident.routes)),
        python=sys.executable,
        keys=incident.keys if "workers" in incident.keys else f"workers = 2\n{incident.keys}",
        upstream=upstream,
    )


def begin_load(port, over, incident):
    for path, count in incident.load.items():
        for _ in range(count):
            threading.Thread(target=client, args=(port, path, over, incident), daemon=True).start()


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def control_group(cores):
    """A control group of its own, of version 2 or 1, that may use so many cores."""
    top, period = pathlib.Path("/sys/fs/cgroup"), 100_000
    is_second = (top / "cgroup.controllers").exists()
    group = (top if is_second else top / "cpu") / f"keepwarm-incident-{os.getpid()}"
    if is_second:
        (top / "cgroup.subtree_control").write_text("+cpu")
    group.mkdir()
    try:
        quota = int(cores * period)
        if is_second:
            (group / "cpu.max").write_text(f"{quota} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        yield group
    finally:
        remove(group)


def remove(group):
    end = time.monotonic() + 10
    while True:
        try:
            return group.rmdir()
        except OSError:
            # Its last process is about to end.
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def watch(binary, directory, name, incident):
    """Looks once a second: the first verdict is the expected one, and stays alone until the time is over."""
    began, first, looks = time.monotonic(), None, []
    while time.monotonic() - began < incident.within:
        looks.append(why(binary, directory))
        findings = looks[-1]["findings"]
        found = [finding["id"] for finding in findings]
        if found and first is None:
            first = time.monotonic() - began
        if [found_id for found_id in found if found_id != incident.verdict]:
            evidence = "; ".join(finding["evidence"] for finding in findings)
            after = time.monotonic() - began
            print(f"{name}: {', '.join(found)} in place of {incident.verdict or 'nothing'} after {after:.0f} s: {evidence}")
            return False
        time.sleep(1)
    after = f"after {first:.0f} s" if first is not None else f"in {incident.within} s; {load_of(looks)}"
    print(f"{name}: {incident.verdict or 'nothing'} {after}")
    return (first is None) == (incident.verdict is None)


def load_of(looks):
    """What a server without a verdict did meanwhile: medians of the looks."""
    apps = [app["now"] for look in looks for app in look["apps"] if app["now"]]
    if not apps:
        return "no request ended"
    machines = [look["machine"] for look in looks]
    return (
        f"{len(looks)} looks; {median(apps, 'per_second'):.0f} requests/s, p50 {median(apps, 'p50_seconds') * 1e3:.1f} ms, "
        f"p99 {median(apps, 'p99_seconds') * 1e3:.1f} ms; machine busy {median(machines, 'busy'):.0%}, "
        f"stolen {median(machines, 'stolen'):.0%}, tasks wait for a processor {median(machines, 'pressure'):.0%} of the time"
    )


def median(looks, member):
    return statistics.median(one[member] or 0.0 for one in looks)


def why(binary, directory):
    shown = subprocess.run([binary, "why", "--json"], cwd=directory, stdout=subprocess.PIPE, check=False)
    return json.loads(shown.stdout)


def client(port, path, over, incident):
    converse = CLIENTS.get(path, request)
    while not over.wait(incident.pause):
        converse(port, path, incident.slow)


def request(port, path, slow=0.0):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            while response.read(1 << 20):
                time.sleep(slow)
    except OSError:
        # A server that is stopped at the end of its incident, or its response to an upstream's failure.
        time.sleep(0.1)


def expect_continue(port, path, _slow):
    """Sends its body once the server has sent `100 Continue`."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
        if connection.recv(1 << 16).startswith(b"HTTP/1.1 100"):
            connection.sendall(b"body")
        read_to_end(connection)


def wait_for_close(port, path, _slow):
    """Speaks HTTP/1.0, as `ab` does: the response ends where the connection does."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        read_to_end(connection)


def upload_slowly(port, path, _slow):
    """Sends a body a bit at a time, but fast enough for `body_rate`: its connection is in use for a minute."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {60 << 10}\r\n\r\n"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
        for _ in range(60):
            time.sleep(1)
            connection.sendall(bytes(1 << 10))


def read_to_end(connection):
    while connection.recv(1 << 16):
        pass


CLIENTS = {"/upload": expect_continue, "/old": wait_for_close, "/slow": upload_slowly}


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
    """Another service that takes 2 s for a response, closes each connection after one, forgets connections, or refuses them."""

    def __init__(self, kind):
        handler = {"sleep": Sleeping, "close": Closing, "forget": Forgetting}.get(kind)
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


class Forgetting(Sleeping):
    """Behind a firewall or load balancer that forgets connections after a second: what comes later is reset."""

    takes = 0
    idle = 1.0
    served = False

    def handle(self):
        self.close_connection = False
        while not self.close_connection:
            began = time.monotonic()
            # Until the next request, or the end of the connection, has arrived.
            if not self.connection.recv(1, socket.MSG_PEEK):
                return
            if self.served and time.monotonic() - began > self.idle:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # A shutdown, which the server's end of a connection begins with, would be a FIN.
                self.connection.close()
                return
            self.handle_one_request()
            self.served = True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthy", type=int, metavar="SECONDS", default=WITHIN)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("incidents", nargs="*", metavar="INCIDENT")
    sys.exit(main(parser.parse_args()))
