#!/usr/bin/env python3
"""Compares the CPU time per request of two builds of Keepwarm on a machine that also does other work.

    bench/.venv/bin/python bench/load/bursts.py --before BINARY [--bursts N] [--seconds S] [--only CASE] [--smoke]

Both builds run at the same time and are loaded in turn, in bursts of a second. What else the machine does can only add to the CPU time of a burst, so the
least and the lower quartile of all bursts are compared, where means or medians of longer rounds (`run.py --before`) move by a third.
Counted is Keepwarm's own process, not its workers. Standard library only; `wrk` makes the load, and `h2load` that over HTTP/2.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys

import loads
import servers

UPSTREAM = """
[server]
threads = 1

[listen.public]
bind = "127.0.0.1:{port}"

[[listen.public.route]]
upstream = "origin"

[upstream.origin]
url = "http://127.0.0.1:{origin}"
"""


DOOR = """
[server]
threads = 1

[upstream.origin]
url = "http://127.0.0.1:{origin}"
bind = "127.0.0.1:{port}"
"""


def upstream(keepwarm_binary, port, folder, origin):
    return configured(keepwarm_binary, folder, UPSTREAM.format(port=port, origin=origin))


def door(keepwarm_binary, port, folder, origin):
    return configured(keepwarm_binary, folder, DOOR.format(port=port, origin=origin))


def configured(keepwarm_binary, folder, config):
    file = folder / "keepwarm.toml"
    file.write_text(config)
    return [keepwarm_binary, "run", "--config", file]


# Those that need an origin.
FORWARDED = (upstream, door)


# The command, what it serves, and how many streams each connection has (None: HTTP/1.1).
CASES = {
    "fixed": (servers.keepwarm_fixed, None, None),
    "wsgi": (servers.keepwarm, "hello:wsgi", None),
    "asgi": (servers.keepwarm, "hello:asgi", None),
    "rack": (servers.keepwarm, "hello.ru", None),
    "upstream": (upstream, None, None),
    "door": (door, None, None),
    "fixed-h2": (servers.keepwarm_fixed, None, 100),
    "asgi-h2": (servers.keepwarm, "hello:asgi", 100),
}


def main():
    options = arguments()
    failed = False
    print(f"{'case':<10}{'least':>16}{'ratio':>8}{'lower quartile':>18}{'ratio':>8}  (microseconds of CPU per request: before, now)")
    for case in options.only or CASES:
        before, now = compare(case, options)
        failed |= least(now) / least(before) > servers.NO_SLOWER
        print(f"{case:<10}{row(before, now, least, 16)}{row(before, now, quartile, 18)}", flush=True)
    return 1 if failed and not options.smoke else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="Exits with status 1 if a least ratio is over 1.02.")
    parser.add_argument("--before", type=pathlib.Path, metavar="BINARY", required=True, help="the build to compare with")
    parser.add_argument("--keepwarm", type=pathlib.Path, metavar="BINARY", default=servers.ROOT / "target/release/keepwarm", help="this build")
    parser.add_argument("--bursts", type=int, default=20, metavar="N", help="bursts of each build")
    parser.add_argument("--seconds", type=int, default=1, metavar="S", help="length of a burst")
    parser.add_argument("--only", choices=CASES, action="append", help="only this case; may be repeated")
    parser.add_argument("--smoke", action="store_true", help="two bursts, judging nothing: does it work?")
    options = parser.parse_args()
    if options.smoke:
        options.bursts = 2
    for binary in (options.before, options.keepwarm):
        if not binary.exists():
            parser.error(f"{binary} does not exist (cargo build --release -p keepwarm)")
    options.before, options.keepwarm = options.before.resolve(), options.keepwarm.resolve()
    return options


def compare(case, options):
    """Microseconds per request of each burst: of the build before, and of this one."""
    command, target, streams = CASES[case]
    running, spent = [], ([], [])
    try:
        if command in FORWARDED:
            running.append(servers.Server("origin", servers.nginx, None, None))
            target = running[0].port
        pair = []
        for name, binary in (("before", options.before), ("now", options.keepwarm)):
            pair.append(servers.Server(name, command, target, binary))
            running.append(pair[-1])
        for server in pair:
            burst(server, streams, options.seconds)  # warm
        for number in range(options.bursts):
            for which in (0, 1) if number % 2 else (1, 0):
                spent[which].append(burst(pair[which], streams, options.seconds))
    finally:
        for server in running:
            server.stop()
    return spent


def burst(server, streams, seconds):
    before = cpu(server.process.pid)
    requests = over_http1(server, seconds) if streams is None else loads.h2load(server, streams, seconds)[0]
    return (cpu(server.process.pid) - before) / 1000 / requests


def over_http1(server, seconds):
    output = subprocess.run(["wrk", "-t1", "-c16", f"-d{seconds}s", f"{server.origin}/"], stdout=subprocess.PIPE, check=True, text=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"{server.name}: {output}")
    return int(re.search(r"(\d+) requests in", output)[1])


def cpu(pid):
    """Nanoseconds on a processor, of all threads."""
    return sum(servers.threads(pid).values())


def least(bursts):
    return min(bursts)


def quartile(bursts):
    return statistics.quantiles(bursts, n=4)[0]


def row(before, now, of, width):
    values = f"{of(before):.2f}, {of(now):.2f}"
    return f"{values:>{width}}{of(now) / of(before):>8.3f}"


if __name__ == "__main__":
    sys.exit(main())
