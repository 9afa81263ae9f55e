#!/usr/bin/env python3
"""Measures Keepwarm and its peers side by side, in one run, in turn.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/.venv/bin/python bench/load/run.py [--rounds N] [--seconds S] [--only GROUP] [--before BINARY] [--json FILE] [--smoke]

In every round each server of a group is loaded once per number of connections, one after the other, in an order that changes from round to
round. What counts is the ratio within a round: CPU time of all processes of Keepwarm per request, divided by the peer's. Shown are medians over the rounds,
and the least and the greatest ratio of a round. bench/README.md says how to read it. Standard library only; `wrk` makes the load.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import time

import servers
import servers_php as php

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONNECTIONS = [1, 16, 256]
BEFORE = "before"  # the name of another Keepwarm in a group


@dataclasses.dataclass
class Bound:
    """What a ratio to a peer has to be: at most the floor, and better still at most the aim."""

    floor: float
    aim: float = None


@dataclasses.dataclass
class Group:
    """Servers that do the same work."""

    name: str
    servers: list  # (name, command, target); the first is Keepwarm
    bounds: dict  # peer -> Bound on the ratio of CPU per request
    headers: tuple = ()
    # A peer whose requests/s at 16 connections are to be reached.
    rate_peer: str = None
    # peer -> how many times its requests/s at 16 connections are wanted at least.
    rate_floors: dict = dataclasses.field(default_factory=dict)
    # What the response of each contains.
    body: bytes = servers.BODY


GROUPS = [
    Group(
        "wsgi",
        [
            ("keepwarm", servers.keepwarm, "hello:wsgi"),
            ("granian", servers.granian, "hello:wsgi"),
            ("gunicorn", servers.gunicorn, "hello:wsgi"),
        ],
        {"granian": Bound(1.15, 0.95), "gunicorn": Bound(0.25)},
        rate_peer="granian",
    ),
    Group(
        "asgi",
        [
            ("keepwarm", servers.keepwarm, "hello:asgi"),
            ("granian", servers.granian, "hello:asgi"),
            ("uvicorn", servers.uvicorn, "hello:asgi"),
        ],
        {"granian": Bound(1.0, 0.85), "uvicorn": Bound(0.25)},
        rate_peer="granian",
    ),
    Group(
        "rack",
        [
            ("keepwarm", servers.keepwarm, "hello.ru"),
            ("puma", servers.puma, "hello.ru"),
            ("unicorn", servers.unicorn, "hello.ru"),
            ("bare", servers.bare, None),
        ],
        {"puma": Bound(0.65, 0.5), "unicorn": Bound(0.65, 0.5)},
        rate_peer="puma",
    ),
    Group(
        "fixed",
        [("keepwarm", servers.keepwarm_fixed, None), ("nginx", servers.nginx, None)],
        {"nginx": Bound(1.3)},
    ),
    Group(
        "fixed, a connection per request",
        [("keepwarm", servers.keepwarm_fixed, None), ("nginx", servers.nginx, None)],
        {"nginx": Bound(1.2)},
        headers=("Connection: close",),
    ),
    # Levels of equal ratio: a page is not larger by Keepwarm than by nginx.
    Group(
        "compression, fast",
        [("keepwarm", servers.keepwarm_page("gzip", "fast"), None), ("nginx, level 1", servers.nginx_page(1), None)],
        {"nginx, level 1": Bound(1.1, 0.9)},
        headers=("Accept-Encoding: gzip",),
        body=b"product__title",
    ),
    Group(
        "compression, balanced",
        [
            ("keepwarm", servers.keepwarm_page("gzip", "balanced"), None),
            ("nginx, level 4", servers.nginx_page(4), None),
            ("keepwarm, zstd", servers.keepwarm_page("zstd", "balanced"), None),
            ("keepwarm, brotli", servers.keepwarm_page("br", "balanced"), None),
        ],
        {"nginx, level 4": Bound(1.1, 0.9)},
        headers=("Accept-Encoding: gzip, zstd, br",),
        body=b"product__title",
    ),
    Group(
        "php",
        [
            ("keepwarm", php.keepwarm(1, "hello.php"), None),
            ("nginx + php-fpm", php.fpm(1, "hello_script.php"), None),
            ("php -S", php.built_in(1, "hello_script.php"), None),
            ("bare", servers.bare, None),
        ],
        {"nginx + php-fpm": Bound(0.5, 0.35)},
        rate_peer="nginx + php-fpm",
    ),
    Group(
        "fastcgi",
        [
            ("keepwarm", php.classic(16, "hello_script.php"), None),
            ("nginx + php-fpm, kept", php.fpm(16, "hello_script.php"), None),
            ("nginx + php-fpm", php.fpm(16, "hello_script.php", kept=False), None),
            ("keepwarm, its own php-fpm", php.classic_own(16, "hello_script.php"), None),
        ],
        {"nginx + php-fpm, kept": Bound(1.05), "nginx + php-fpm": Bound(1.05)},
    ),
    Group(
        "symfony",
        [
            ("keepwarm", php.keepwarm(2, "public/index.php", php.ROOT / "examples/symfony"), None),
            ("nginx + php-fpm", php.fpm(2, "symfony_script.php"), None),
            ("php -S", php.built_in(1, "symfony_script.php"), None),
            ("php -S, three processes", php.built_in(3, "symfony_script.php"), None),
        ],
        {"nginx + php-fpm": Bound(0.25, 0.15)},
        rate_floors={"nginx + php-fpm": 5.0, "php -S": 8.0},
        body=b"<h1>Shop</h1>",
    ),
]


@dataclasses.dataclass
class Sample:
    """One server under load once."""

    cpu_us: float  # CPU of all its processes per request, in microseconds
    rate: float  # requests per second
    errors: int  # connections that failed, timed out or broke off
    requests: int


def main():
    options = arguments()
    # So that the servers are stopped, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = {"machine": machine(), "seconds": options.seconds, "rounds": options.rounds, "groups": {}}
    print("\n".join(f"{key}: {value}" for key, value in report["machine"].items()))
    print(f"{options.rounds} rounds of {options.seconds} s for each server and number of connections\n", flush=True)
    missed = 0
    for group in GROUPS:
        if options.only and group.name.partition(",")[0] not in options.only:
            continue
        if options.before:
            group = beside_itself(group)
        samples = measure(group, options)
        missed += show(group, samples)
        report["groups"][group.name] = as_json(group, samples)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{missed} floors missed" if missed else "every floor is held")
    # Timing fails nothing unless it is asked to: a busy machine is no defect.
    return 1 if missed and options.strict else 0


def beside_itself(group):
    """The same work, by Keepwarm and by the Keepwarm of another state of the source."""
    _, command, target = group.servers[0]
    return dataclasses.replace(group, servers=[group.servers[0], (BEFORE, command, target)], bounds={BEFORE: Bound(servers.NO_SLOWER)},
                               rate_peer=None, rate_floors={})


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement")
    parser.add_argument("--only", action="append", help="wsgi, asgi, rack, fixed, compression, php, fastcgi or symfony; may be given again")
    parser.add_argument("--before", type=pathlib.Path, metavar="BINARY",
                        help="beside this Keepwarm alone, built from another state of the source, instead of the peers")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every sample and the summary")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a floor is missed")
    parser.add_argument("--smoke", action="store_true", help="one short round: does it work? The figures mean nothing")
    parser.add_argument("--keepwarm", type=pathlib.Path, metavar="BINARY",
                        default=pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/keepwarm")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds = 1, 0.25
    options.keepwarm = options.keepwarm.resolve()
    options.before = options.before and options.before.resolve()
    if not options.keepwarm.exists():
        parser.error(f"{options.keepwarm} is missing: cargo build --release -p keepwarm")
    return options


def measure(group, options):
    """server -> connections -> one Sample per round."""
    samples = {name: {connections: [] for connections in CONNECTIONS} for name, _, _ in group.servers}
    running = []
    try:
        for name, command, target in group.servers:
            running.append(servers.Server(name, command, target, options.before if name == BEFORE else options.keepwarm, group.body))
        for server in running:
            load(server, 16, min(1.0, options.seconds), group.headers)  # caches, lazy imports
        for round_number in range(options.rounds):
            for connections in CONNECTIONS:
                # Each server comes first, in the middle and last in turn.
                shift = round_number % len(running)
                for server in running[shift:] + running[:shift]:
                    samples[server.name][connections].append(load(server, connections, options.seconds, group.headers))
    finally:
        for server in running:
            server.stop()
    return samples


def load(server, connections, seconds, headers):
    """Loads the server once with `wrk`, and reads its CPU time before and after."""
    # wrk knows whole seconds only; for shorter ones it is interrupted, and reports all the same.
    command = ["wrk", "-t1", f"-c{connections}", "-d60s", "--timeout", "5s", f"http://127.0.0.1:{server.port}/"]
    for header in headers:
        command[1:1] = ["-H", header]
    before = server.cpu()
    wrk = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
    time.sleep(seconds)
    wrk.send_signal(2)
    output = wrk.communicate(timeout=30)[0]
    after = server.cpu()
    if before.keys() != after.keys():
        raise SystemExit(f"{server.name}: its processes changed while it was measured: {before} {after}")
    return read_wrk(output, sum(after.values()) - sum(before.values()), server)


def read_wrk(output, cpu, server):
    total = re.search(r"(\d+) requests in", output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if not total or not rate or int(total[1]) == 0:
        raise SystemExit(f"{server.name}: no request got a response:\n{output}")
    if "Non-2xx" in output:
        raise SystemExit(f"{server.name}: some responses were no success:\n{output}")
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    requests = int(total[1])
    return Sample(cpu / requests * 1e6, float(rate[1]), sum(map(int, errors.groups())) if errors else 0, requests)


def show(group, samples):
    """Prints a table of the group; gives how many floors were missed."""
    print(f"## {group.name}\n")
    print("| connections | server | CPU µs/request | requests/s | errors | CPU ratio (least-greatest) | floor | aim |")
    print("|---|---|---|---|---|---|---|---|")
    missed = 0
    for connections in CONNECTIONS:
        for name in samples:
            taken = samples[name][connections]
            row = [str(connections), name, f"{median(s.cpu_us for s in taken):.1f}", f"{median(s.rate for s in taken):,.0f}",
                   str(sum(s.errors for s in taken)), "", "", ""]
            if name in group.bounds:
                bound, ratios = group.bounds[name], cpu_ratios(samples, name, connections)
                middle = statistics.median(ratios)
                missed += middle > bound.floor
                row[5] = f"{middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
                row[6] = f"{bound.floor:.2f} {verdict(middle <= bound.floor)}"
                row[7] = f"{bound.aim:.2f} {verdict(middle <= bound.aim)}" if bound.aim else ""
            print(f"| {' | '.join(row)} |")
    if group.rate_peer:
        ratios = rate_ratios(samples, group.rate_peer, 16)
        middle = statistics.median(ratios)
        print(f"\nrequests/s at 16 connections: {middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f}) of {group.rate_peer}'s;"
              f" aim: 1.00 {verdict(middle >= 1)}")
    for peer, floor in group.rate_floors.items():
        ratios = rate_ratios(samples, peer, 16)
        middle = statistics.median(ratios)
        missed += middle < floor
        print(f"\nrequests/s at 16 connections: {middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f}) times {peer}'s;"
              f" floor: {floor:.2f} {verdict(middle >= floor)}")
    print(flush=True)
    return missed


def verdict(held):
    return "held" if held else "MISSED"


def median(values):
    return statistics.median(list(values))


def cpu_ratios(samples, peer, connections):
    """Round by round: Keepwarm's CPU per request divided by the peer's."""
    pairs = zip(samples["keepwarm"][connections], samples[peer][connections])
    return [ours.cpu_us / theirs.cpu_us for ours, theirs in pairs if theirs.cpu_us] or [float("nan")]


def rate_ratios(samples, peer, connections):
    pairs = zip(samples["keepwarm"][connections], samples[peer][connections])
    return [ours.rate / theirs.rate for ours, theirs in pairs]


def as_json(group, samples):
    summary = []
    for connections in CONNECTIONS:
        for peer, bound in group.bounds.items():
            ratios = cpu_ratios(samples, peer, connections)
            summary.append({
                "connections": connections, "peer": peer, "floor": bound.floor, "aim": bound.aim,
                "cpu_ratio": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios),
                "rate_ratio": statistics.median(rate_ratios(samples, peer, connections)),
            })
    rounds = {name: {str(c): [dataclasses.asdict(s) for s in taken] for c, taken in by.items()} for name, by in samples.items()}
    return {"summary": summary, "rounds": rounds}


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    names = ["granian", "gunicorn", "uvicorn"]
    listing = subprocess.run([sys.executable, "-m", "pip", "list", "--format=json"], stdout=subprocess.PIPE, check=True).stdout
    versions = {each["name"]: each["version"] for each in json.loads(listing)}
    return {
        "processor": f"{model[1] if model else platform.machine()}, {os.cpu_count()} in all",
        "system": f"Linux {platform.release()}, CPython {platform.python_version()}",
        "peers": ", ".join(f"{name} {versions.get(name, 'missing')}" for name in names),
        "load before": pathlib.Path("/proc/loadavg").read_text().split()[0],
    }


if __name__ == "__main__":
    sys.exit(main())
