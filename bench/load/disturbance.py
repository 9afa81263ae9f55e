#!/usr/bin/env python3
"""What reloads and recycling do to the time of responses, under a constant load.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/.venv/bin/python bench/load/disturbance.py [--rounds N] [--seconds S] [--rate R]

The Flask example on two workers gets so many requests a second from `h2load`, on 16 kept connections. In each round the same server is
loaded three times, in an order that changes from round to round: left alone (quiet), with workers that are replaced about once a second
(recycling, by `max_requests`), and with a SIGHUP each second (reload). What counts is the 99th percentile beside that of the quiet part of the
same round: at most twice. Standard library only.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONNECTIONS = 16
FLOOR = 2.0


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        parts = {
            "quiet": Part(options, None, lambda server: None),
            "recycling": Part(options, options.rate // 2, lambda server: None),
            "reload": Part(options, None, lambda server: server.process.send_signal(signal.SIGHUP)),
        }
        ratios = {name: [] for name in parts}
        worst = {name: [] for name in parts}
        for number in range(options.rounds):
            names = list(parts)
            shift = number % len(names)
            seen = {name: parts[name].run(pathlib.Path(folder) / "log") for name in names[shift:] + names[:shift]}
            for name in names:
                worst[name].append(seen[name])
                ratios[name].append(seen[name] / seen["quiet"])
            print(f"round {number + 1}: " + ", ".join(f"{name} {seen[name]:.2f} ms" for name in names), flush=True)
    missed = 0
    print("\n| | p99, ms | beside quiet (least-greatest) | floor |\n|---|---|---|---|")
    for name in parts:
        ratio = statistics.median(ratios[name])
        held = "" if name == "quiet" else f"{FLOOR} {'held' if ratio <= FLOOR else 'MISSED'}"
        missed += name != "quiet" and ratio > FLOOR
        print(f"| {name} | {statistics.median(worst[name]):.2f} | {ratio:.2f} ({min(ratios[name]):.2f}-{max(ratios[name]):.2f}) | {held} |")
    return 1 if missed and options.strict else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6, help="length of each part")
    parser.add_argument("--rate", type=int, default=400, help="requests a second")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when the floor is missed")
    return servers.arguments_with_keepwarm(parser)


class Part:
    """One way to disturb the server."""

    def __init__(self, options, max_requests, disturb):
        self.options = options
        self.max_requests = max_requests
        self.disturb = disturb

    def run(self, log):
        """The 99th percentile, in ms."""
        server = servers.Server("keepwarm", self.command, None, self.options.keepwarm, b"")
        over = threading.Event()

        def each_second():
            while not over.wait(1):
                self.disturb(server)

        disturbing = threading.Thread(target=each_second)
        try:
            self.load(server, 2, os.devnull)
            disturbing.start()
            log.unlink(missing_ok=True)
            self.load(server, self.options.seconds, log)
        finally:
            over.set()
            if disturbing.is_alive():
                disturbing.join()
            server.stop()
        return percentile(log, self.options.seconds * self.options.rate)

    def load(self, server, seconds, log):
        count = seconds * self.options.rate
        subprocess.run(
            ["h2load", "--h1", "-t1", f"-c{CONNECTIONS}", f"-n{count}", f"--rps={self.options.rate / CONNECTIONS}",
             f"--log-file={log}", f"http://127.0.0.1:{server.port}/"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds * 4 + 30,
        )

    def command(self, keepwarm_binary, port, folder, _target):
        more = f"max_requests = {self.max_requests}\n" if self.max_requests else ""
        file = folder / "keepwarm.toml"
        file.write_text(
            f'[listen.public]\nbind = "127.0.0.1:{port}"\n[[listen.public.route]]\napp = "shop"\n'
            f'[app.shop]\nentry = "shop.wsgi:application"\ndirectory = "{ROOT}/examples/wsgi-flask"\n'
            f'interpreter = "{ROOT}/.venv/bin/python"\nworkers = 2\n{more}'
        )
        return [keepwarm_binary, "run", "--config", file]


def percentile(log, count):
    """Of the time until the end of each response; every request must have got a 200."""
    times = []
    for line in log.read_text().splitlines():
        _, status, micros = line.split("\t")[:3]
        if status != "200":
            raise SystemExit(f"a response with status {status}")
        times.append(int(micros) / 1000)
    if len(times) < count:
        raise SystemExit(f"{count - len(times)} of {count} requests got no response")
    return statistics.quantiles(times, n=100)[98]


if __name__ == "__main__":
    sys.exit(main())
