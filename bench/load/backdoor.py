#!/usr/bin/env python3
"""Measures the back door and its peers side by side: Envoy, nginx, HAProxy, and no proxy at all.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/.venv/bin/python bench/load/backdoor.py [--rounds N] [--seconds S] [--only PART] [--before BINARY] [--json FILE] [--smoke]

Parts: `article` (PHP that fetches a document over HTTPS, near and 37 ms away), `small` (CPU of the proxy for each small call), `large` (1 MiB responses),
`latency` (what a proxy adds at 1,000 calls a second), `origin` (CPU of the origin with and without a pool). bench/README.md says how to read them.
Standard library only; `wrk` and `h2load` make the load.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from servers_backdoor import NAME, PROXIES, Application, Bare, Certificates, Origin, Proxy, Relay

CHILDREN = 100  # of php-fpm, and calls at once
DISTANCE = 37  # milliseconds there and back
BARE = "bare, to the origin in clear"
BEFORE = "keepwarm before"  # another Keepwarm
RATE = 1000  # calls a second, where latency is looked at


def main():
    options = arguments()
    # So that the servers are stopped, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{options.rounds} rounds of {options.seconds} s; load before: {pathlib.Path('/proc/loadavg').read_text().split()[0]}\n", flush=True)
    report, missed = {}, 0
    with tempfile.TemporaryDirectory(prefix="keepwarm-bench-") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options, Certificates(folder))
        for name, part in PARTS.items():
            if options.only and name not in options.only or options.before and part not in BESIDE_ITSELF:
                continue
            bench.samples, bench.verdicts = {}, []
            try:
                part(bench)
            finally:
                bench.stop()
            missed += bench.missed()
            report[name] = bench.samples
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{missed} floors missed" if missed else "every floor is held")
    return 1 if missed and options.strict else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="may be given again")
    parser.add_argument("--before", type=pathlib.Path, metavar="BINARY",
                        help="small and large beside this Keepwarm alone, built from another state of the source")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every sample")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a floor is missed")
    parser.add_argument("--smoke", action="store_true", help="one short round: does it work? The figures mean nothing")
    options = servers.arguments_with_keepwarm(parser)
    if options.smoke:
        options.rounds, options.seconds = 1, 2.0
    options.before = options.before and options.before.resolve()
    return options


class Bench:
    """Servers of one part, and what was measured of them."""

    def __init__(self, options, certificates):
        self.options = options
        self.certificates = certificates
        self.running = []
        self.samples = {}  # name -> value -> one number per round
        self.verdicts = []

    def start(self, server):
        self.running.append(server)
        return server

    def stop(self):
        for server in reversed(self.running):
            server.stop()
        self.running.clear()

    def proxy(self, name, scheme, port):
        binary = self.options.before if name == BEFORE else self.options.keepwarm
        return self.start(Proxy(name, scheme, port, self.certificates, binary))

    def peers(self, *usual):
        """Keepwarm and those it is compared with."""
        return ["keepwarm", BEFORE] if self.options.before else ["keepwarm", *usual]

    def relay(self, port, distance):
        return self.start(Relay(servers.built("keepwarm-bench-relay"), port, distance))

    def rounds(self, measures):
        """Takes each measure once a round, each first, in the middle and last in turn. A measure gives numbers by name."""
        for number in range(self.options.rounds):
            names = list(measures)
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                for value, sample in measures[name]().items():
                    self.samples.setdefault(name, {}).setdefault(value, []).append(sample)

    def median(self, name, value):
        return statistics.median(self.samples[name][value])

    def ratio(self, ours, theirs, value):
        """Median, least and greatest, round by round."""
        ratios = [a / b for a, b in zip(self.samples[ours][value], self.samples[theirs][value]) if b] or [float("nan")]
        return statistics.median(ratios), min(ratios), max(ratios)

    def hold(self, ours, theirs, value, at_most=None, at_least=None, aim=None):
        """Prints a ratio and whether it is what it has to be."""
        middle, least, greatest = self.ratio(ours, theirs, value)
        held = middle <= at_most if at_most is not None else middle >= at_least
        bound = f"at most {at_most}" if at_most is not None else f"at least {at_least}"
        aimed = "" if aim is None else f"; aim {aim}: {'held' if middle <= aim else 'MISSED'}"
        self.verdicts.append(held)
        print(f"* {value}: {ours} of {theirs}: {middle:.2f} ({least:.2f}-{greatest:.2f}); floor {bound}: {'held' if held else 'MISSED'}{aimed}", flush=True)

    def report(self, ours, theirs, value):
        """Prints a ratio."""
        print("* {}: {} of {}: {:.2f} ({:.2f}-{:.2f})".format(value, ours, theirs, *self.ratio(ours, theirs, value)), flush=True)

    def missed(self):
        return self.verdicts.count(False)

    def table(self, title, columns):
        print(f"\n## {title}\n\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        for name in self.samples:
            cells = [f"{self.median(name, column):,.1f}" if column in self.samples[name] else "" for column in columns]
            print(f"| {name} | {' | '.join(cells)} |")
        print(flush=True)

    def load(self, port, connections, path="/", watched=None, scheme="http", headers=()):
        """Loads with `wrk`; gives requests/s, and the CPU time of `watched` per request in microseconds."""
        command = ["wrk", "-t1", f"-c{connections}", "-d60s", "--timeout", "20s", f"{scheme}://127.0.0.1:{port}{path}"]
        for header in headers:
            command[1:1] = ["-H", header]
        before = watched.cpu() if watched else {}
        wrk = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        time.sleep(self.options.seconds)
        wrk.send_signal(signal.SIGINT)
        output = wrk.communicate(timeout=30)[0]
        after = watched.cpu() if watched else {}
        total = re.search(r"(\d+) requests in", output)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
        if not total or not rate or int(total[1]) == 0 or "Non-2xx" in output:
            raise SystemExit(f"not every call got a 200:\n{output}")
        sample = {"calls/s": float(rate[1])}
        if watched:
            used = sum(after.values()) - sum(before.get(pid, 0) for pid in after)
            sample["CPU µs/call"] = used / int(total[1]) * 1e6
        return sample


def article(bench):
    """The article's experiment: what an app that shares nothing gains by a pool."""
    origin = bench.start(Origin(bench.certificates))
    for distance in (0, DISTANCE):
        bench.samples = {}
        at = {scheme: bench.relay(origin.port_of(scheme), distance).port if distance else origin.port_of(scheme) for scheme in ("http", "https")}
        targets = {
            "direct http": (f"http://127.0.0.1:{at['http']}/", ""),
            "direct https": (f"https://{NAME}:{at['https']}/", f"{NAME}:{at['https']}:127.0.0.1"),
        }
        proxies = {name: bench.proxy(name, "https", at["https"]) for name in PROXIES}
        proxies[BARE] = bench.start(Bare(at["http"]))
        targets |= {name: (f"http://127.0.0.1:{proxy.port}/", "") for name, proxy in proxies.items()}

        def measure(name, url, resolve):
            # An application at a time: each has a hundred processes.
            app = Application(url, bench.certificates, resolve, CHILDREN)
            try:
                bench.load(app.port, CHILDREN)  # opcache, and the proxy's connections
                return bench.load(app.port, CHILDREN, watched=proxies.get(name))
            finally:
                app.stop()

        bench.rounds({name: lambda name=name, target=target: measure(name, *target) for name, target in targets.items()})
        bench.table(f"article: {CHILDREN} at once, origin {f'{distance} ms away' if distance else 'near'}", ["calls/s", "CPU µs/call"])
        for peer in ("envoy", "nginx", "haproxy"):
            bench.hold("keepwarm", peer, "calls/s", at_least=1.0)
        if distance:
            bench.hold("keepwarm", "direct https", "calls/s", at_least=2.2)
            bench.hold("keepwarm", "direct http", "calls/s", at_least=1.46)
        bench.hold("keepwarm", "envoy", "CPU µs/call", at_most=0.4)
        bench.report(BARE, "envoy", "CPU µs/call")


def small(bench):
    """The proxy's CPU for a small call, kept connections on both sides."""
    origin = bench.start(Origin(bench.certificates))
    for scheme in ("http", "https"):
        bench.samples = {}
        port = origin.port_of(scheme)
        proxies = {name: bench.proxy(name, scheme, port) for name in bench.peers("nginx", "haproxy", "envoy")}
        if scheme == "http" and not bench.options.before:
            proxies["a relay that copies"] = bench.relay(port, 0)
        bench.rounds({name: lambda proxy=proxy: bench.load(proxy.port, 16, watched=proxy) for name, proxy in proxies.items()})
        bench.table(f"small: an origin over {scheme}, 16 connections", ["CPU µs/call", "calls/s"])
        if bench.options.before:
            bench.hold("keepwarm", BEFORE, "CPU µs/call", at_most=servers.NO_SLOWER)
            continue
        for peer, floor, aim in (("nginx", 1.0, 0.8), ("haproxy", 1.0, 0.8), ("envoy", 0.45, 0.3)):
            bench.hold("keepwarm", peer, "CPU µs/call", at_most=floor, aim=aim)


def large(bench):
    """Responses of 1 MiB."""
    origin = bench.start(Origin(bench.certificates))
    for scheme in ("http", "https"):
        bench.samples = {}
        proxies = {name: bench.proxy(name, scheme, origin.port_of(scheme)) for name in bench.peers("nginx")}
        bench.rounds({name: lambda proxy=proxy: bench.load(proxy.port, 8, "/large", proxy) for name, proxy in proxies.items()})
        bench.table(f"large: 1 MiB over {scheme}, 8 connections", ["calls/s", "CPU µs/call"])
        if bench.options.before:
            bench.hold("keepwarm", BEFORE, "CPU µs/call", at_most=servers.NO_SLOWER)
        else:
            bench.hold("keepwarm", "nginx", "calls/s", at_least=1.0)


def latency(bench):
    """What a proxy adds to the time of a call at a constant rate."""
    origin = bench.start(Origin(bench.certificates))
    ports = {"direct": origin.port} | {name: bench.proxy(name, "http", origin.port).port for name in PROXIES}
    bench.rounds({name: lambda port=port: constant(port, bench.options.seconds) for name, port in ports.items()})
    direct = bench.samples["direct"]
    for name in PROXIES:
        for quantile in ("p50", "p99"):
            bench.samples[name][f"{quantile} added, ms"] = [
                ours - theirs for ours, theirs in zip(bench.samples[name][f"{quantile}, ms"], direct[f"{quantile}, ms"])]
    bench.table(f"latency: {RATE} calls/s", ["p50, ms", "p99, ms", "p50 added, ms", "p99 added, ms"])
    for quantile in ("p50 added, ms", "p99 added, ms"):
        bench.hold("keepwarm", "envoy", quantile, at_most=1.0)


def constant(port, seconds):
    connections, count = 16, max(100, int(seconds * RATE))
    with tempfile.NamedTemporaryFile() as log:
        subprocess.run(
            ["h2load", "--h1", "-t1", f"-c{connections}", f"-n{count}", f"--rps={RATE / connections}", f"--log-file={log.name}",
             f"http://127.0.0.1:{port}/"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds * 4 + 30)
        lines = [line.split("\t") for line in pathlib.Path(log.name).read_text().splitlines()]
    if len(lines) < count or any(status != "200" for _, status, _ in lines):
        raise SystemExit("not every call got a 200")
    cuts = statistics.quantiles([int(micros) / 1000 for _, _, micros in lines], n=100)
    return {"p50, ms": cuts[49], "p99, ms": cuts[98]}


def origin(bench):
    """The origin's CPU for a call over TLS, with a pool and with a connection for each."""
    server = bench.start(Origin(bench.certificates))
    door = bench.proxy("keepwarm", "https", server.tls_port)
    bench.rounds({
        "pooled": lambda: bench.load(door.port, 16, watched=server),
        "a connection each": lambda: bench.load(server.tls_port, 16, watched=server, scheme="https", headers=["Connection: close", f"Host: {NAME}"]),
    })
    bench.table("origin: over TLS", ["CPU µs/call", "calls/s"])
    bench.hold("pooled", "a connection each", "CPU µs/call", at_most=0.35)


BESIDE_ITSELF = (small, large)
PARTS = {"article": article, "small": small, "large": large, "latency": latency, "origin": origin}


if __name__ == "__main__":
    sys.exit(main())
