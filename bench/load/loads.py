"""What makes the load of a group, other than wrk on kept connections in plaintext: over TLS, on new and on resumed connections, over HTTP/2.

Each load says how many requests got a response; CPU time is the server's own.
"""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

RESUME = pathlib.Path(__file__).resolve().parent / "resume.py"

LEAST_OF_TLS = 1.0


def wrk(server, connections, seconds, path="/", headers=()):
    """Requests, requests per second and errors by wrk; with `Connection: close` it makes a connection, and a full handshake, for each."""
    # wrk knows whole seconds only; for shorter ones it is interrupted, and reports all the same.
    command = ["wrk", "-t1", f"-c{connections}", "-d60s", "--timeout", "5s", f"{server.origin}{path}"]
    for header in headers:
        command[1:1] = ["-H", header]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    # Under TLS all connections are made first.
    time.sleep(max(seconds, LEAST_OF_TLS) if server.origin.startswith("https") else seconds)
    output = interrupted(process)
    total = re.search(r"(\d+) requests in", output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if not total or not rate or int(total[1]) == 0:
        raise SystemExit(f"{server.name}: no request got a response:\n{output}")
    if "Non-2xx" in output:
        raise SystemExit(f"{server.name}: some responses were no success:\n{output}")
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    return int(total[1]), float(rate[1]), sum(map(int, errors.groups())) if errors else 0


def interrupted(process):
    """What it prints when it is interrupted. wrk misses a signal while it starts its threads, which takes a busy machine a while: then again."""
    for _ in range(30):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=1)[0]
    process.kill()
    process.wait()
    raise SystemExit("wrk does not end when it is interrupted")


def h2load(server, streams, seconds):
    """The same over HTTP/2: 16 connections with this many streams each."""
    # In a fraction of a second a busy machine may not complete a request, and h2load does not always end then: as many as can be open at once, twice.
    length = f"-D{int(seconds * 1000)}ms" if seconds >= 1 else f"-n{2 * 16 * streams}"
    command = ["h2load", "-t1", "-c16", f"-m{streams}", length, f"{server.origin}/"]
    output = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds + 60, check=True).stdout
    protocol = re.search(r"Application protocol: (\S+)", output)
    counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output)
    if not protocol or protocol[1] not in ("h2", "h2c") or not counts or int(counts[2]) == 0:
        raise SystemExit(f"{server.name}: not served over HTTP/2:\n{output}")
    done, succeeded, failed, errored, late = map(int, counts.groups())
    return succeeded, succeeded / seconds, failed + errored + late


def resumed(server, connections, seconds):
    """The same on a connection for each request, whose TLS session is resumed."""
    command = [sys.executable, RESUME, str(server.port), str(connections), str(seconds)]
    output = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=seconds + 60, check=True).stdout
    seen = json.loads(output)
    if seen["full"]:
        raise SystemExit(f"{server.name}: {seen['full']} of {seen['requests']} sessions were not resumed")
    return seen["requests"], seen["requests"] / seconds, 0
