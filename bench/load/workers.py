#!/usr/bin/env python3
"""What many workers cost Keepwarm while no request comes, and how long its admin endpoints take then.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/load/workers.py [--apps 200] [--workers 10] [--seconds 20] [--keepwarm BINARY] [--smoke]

Each app is a small WSGI app with `preload`, so that its workers are forked. Counted is the CPU time of each thread of Keepwarm's own process, first
while nobody watches, then while one client reads `/events`. Standard library only.
"""

import argparse
import collections
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

import servers

BOOT = 600.0
ENDPOINTS = ("/readyz", "/livez", "/status", "/metrics")


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    admin = servers.free_port()
    server = servers.Server("keepwarm", command(options, admin), None, options.keepwarm)
    try:
        wait_until_ready(server, admin)
        print(f"{options.apps} apps with {options.workers} workers each")
        print(f"nobody watches: {used(server, options.seconds)}", flush=True)
        for endpoint in ENDPOINTS:
            took = sorted(get(admin, endpoint)[0] for _ in range(5))
            print(f"{endpoint}: {took[2] * 1000:.1f} ms (median of 5), {get(admin, endpoint)[1]} bytes", flush=True)
        threading.Thread(target=watch, args=(admin,), daemon=True).start()
        print(f"one watches /events: {used(server, options.seconds)}", flush=True)
    finally:
        server.stop()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=10, help="of each app")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="length of a measurement")
    parser.add_argument("--smoke", action="store_true", help="two apps, for a second: does it work? The figures mean nothing")
    options = servers.arguments_with_keepwarm(parser)
    if options.smoke:
        options.apps, options.workers, options.seconds = 2, 2, 1.0
    return options


def command(options, admin):
    def with_config(keepwarm_binary, port, folder, _target):
        python = servers.BIN / "python"
        apps = range(options.apps)
        routes = [f'[[listen.public.route]]\npath = "/{app}/*"\napp = "app{app}"\n' for app in apps]
        sections = [
            f'[app.app{app}]\nentry = "hello:wsgi"\ndirectory = "{servers.APPS}"\ninterpreter = "{python}"\n'
            f'workers = {options.workers}\npreload = true\nboot_timeout = "{BOOT:.0f}s"\n'
            for app in apps
        ]
        file = folder / "keepwarm.toml"
        file.write_text(
            f'[server]\nthreads = 1\n[admin]\nbind = "127.0.0.1:{admin}"\n[listen.public]\nbind = "127.0.0.1:{port}"\n'
            + "".join(routes) + '[[listen.public.route]]\napp = "app0"\n' + "".join(sections)
        )
        return [keepwarm_binary, "run", "--config", file]

    return with_config


def wait_until_ready(server, admin):
    deadline = time.monotonic() + BOOT
    while True:
        try:
            get(admin, "/readyz")
            return
        except (urllib.error.URLError, OSError) as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"not ready: {error}\n{server.log.read_text(errors='replace')}") from error
            time.sleep(0.5)


def get(admin, path):
    """Seconds until the response was here, and its length."""
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}{path}", timeout=60) as response:
        length = len(response.read())
    return time.monotonic() - begun, length


def watch(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/events", timeout=60) as response:
        while response.readline():
            pass


def used(server, seconds):
    """Shares of a processor: of the process, and of its threads by name."""
    before, begun = servers.threads(server.process.pid), time.monotonic()
    time.sleep(seconds)
    after, passed = servers.threads(server.process.pid), time.monotonic() - begun
    shares = collections.Counter()
    for (name, thread), nanoseconds in after.items():
        shares[name] += (nanoseconds - before.get((name, thread), 0)) / 1e9 / passed
    named = ", ".join(f"{name} {share:.1%}" for name, share in shares.most_common() if share >= 0.001)
    return f"{sum(shares.values()):.1%} of a processor ({named})"


if __name__ == "__main__":
    sys.exit(main())
