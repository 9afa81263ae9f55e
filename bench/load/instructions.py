#!/usr/bin/env python3
"""Compares the instructions per request of two builds of Keepwarm, exactly, on a machine that also does other work.

    bench/.venv/bin/python bench/load/instructions.py --before BINARY [--requests N] [--only CASE] [--smoke]

Counted is the data-plane thread, in user space, from the request in its socket until it waits for events again and the response is there: `steps.c`
steps it by ptrace. Requests come one after the other on one connection. Timers that are due each 100 ms are in some of them, and a step takes up to 40 µs on
a virtual machine: the least of all requests is free of them for a fixed response; where a request has several turns, each has them, in both builds. Neither
the kernel's work nor that of other threads (the log's) is counted; `bursts.py` compares all of it as CPU time.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bursts
import servers

# Of the state before an issue, at most (by instructions).
NO_MORE = 1.01
WARM = 5
CASES = [case for case, (_, _, streams) in bursts.CASES.items() if streams is None]


def main():
    options = arguments()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        steps = pathlib.Path(folder) / "steps"
        subprocess.run(["cc", "-O2", "-o", steps, servers.HERE / "steps.c"], check=True)
        print(f"{'case':<10}{'least':>18}{'ratio':>9}{'median':>20}{'ratio':>9}  (instructions per request: before, now)")
        for case in options.only or CASES:
            before, now = (measure(steps, case, binary, options.requests) for binary in (options.before, options.keepwarm))
            failed |= min(now) / min(before) > NO_MORE
            print(f"{case:<10}{row(min(before), min(now), 18)}{row(statistics.median(before), statistics.median(now), 20)}", flush=True)
    return 1 if failed and not options.smoke else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=f"Exits with status 1 if a least ratio is over {NO_MORE}.")
    parser.add_argument("--before", type=pathlib.Path, metavar="BINARY", required=True, help="the build to compare with")
    parser.add_argument("--keepwarm", type=pathlib.Path, metavar="BINARY", default=servers.ROOT / "target/release/keepwarm", help="this build")
    parser.add_argument("--requests", type=int, default=200, metavar="N", help="requests of each case (default 200)")
    parser.add_argument("--only", choices=CASES, action="append", help="only this case; may be repeated")
    parser.add_argument("--smoke", action="store_true", help="ten requests, judging nothing: does it work?")
    options = parser.parse_args()
    if options.smoke:
        options.requests = 10
    for binary in (options.before, options.keepwarm):
        if not binary.exists():
            parser.error(f"{binary} does not exist (cargo build --release -p keepwarm)")
    options.before, options.keepwarm = options.before.resolve(), options.keepwarm.resolve()
    return options


def measure(steps, case, binary, requests):
    """Instructions of each request, those of the first few left out."""
    command, target, _ = bursts.CASES[case]
    running = []
    try:
        if command in bursts.FORWARDED:
            running.append(servers.Server("origin", servers.nginx, None, None))
            target = running[0].port
        server = servers.Server(case, command, target, binary)
        running.append(server)
        thread = data_plane_thread(server.process.pid)
        result = subprocess.run([steps, str(thread), str(server.port), str(WARM + requests)], stdout=subprocess.PIPE, check=True, text=True)
        return [int(line) for line in result.stdout.split()][WARM:]
    finally:
        for server in running:
            server.stop()


def data_plane_thread(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("keepwarm-data"):
            return task.name
    raise SystemExit("no thread is named keepwarm-data")


def row(before, now, width):
    values = f"{before:,.0f}, {now:,.0f}"
    return f"{values:>{width}}{now / before:>9.4f}"


if __name__ == "__main__":
    sys.exit(main())
