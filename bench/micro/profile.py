#!/usr/bin/env python3
"""What `keepwarm profile` costs a worker: CPU time of its process with signals at a rate, beside none.

    bench/micro/profile.py [wsgi|rack|php ...] [--depth N] [--bursts N] [--hz N] [--smoke]

A request computes for some milliseconds below N calls. Bursts with and without signals take turns; the least of each is compared, since what else the
machine does can only add. Printed are the microseconds of a sample, and what that makes of a worker that computes all the time at 100 samples a second:
at most 1.02 is promised. Signals come at 1000 a second by default, so that the difference is well above the noise. Standard library only.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "spec"))

import wire_driver  # noqa: E402
import wire_profile  # noqa: E402
import worker  # noqa: E402

REQUESTS = 20  # of a burst
PROMISED = 1.02


def main():
    options = arguments()
    failed = False
    print(f"{'worker':<8}{'CPU of a request':>20}{'of a sample':>14}{'at 100 Hz':>12}")
    for kind in options.kinds or ("wsgi", "rack", "php"):
        request, sample = measure(kind, options)
        ratio = 1 + 100 * sample / 1e6
        failed |= ratio > PROMISED
        print(f"{kind:<8}{request:>17.0f} µs{sample:>11.0f} µs{ratio:>12.4f}", flush=True)
    return 1 if failed and not options.smoke else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=f"Exits with status 1 if a ratio is over {PROMISED}.")
    parser.add_argument("kinds", nargs="*", choices=["wsgi", "rack", "php", []], metavar="KIND", help="wsgi, rack, php (default: all)")
    parser.add_argument("--depth", type=int, default=40, metavar="N", help="calls of a stack (default 40)")
    parser.add_argument("--bursts", type=int, default=10, metavar="N", help="of each (default 10)")
    parser.add_argument("--hz", type=int, default=1000, metavar="N", help="signals a second (default 1000)")
    parser.add_argument("--smoke", action="store_true", help="one burst, judging nothing: does it work?")
    options = parser.parse_args()
    if options.smoke:
        options.bursts = 1
    return options


def measure(kind, options):
    """Microseconds of CPU of a request without signals, and of a sample."""
    command = [part.replace("hello", "deep") for part in worker.command(kind)]
    env = {"PYTHONPATH": str(worker.ROOT / "adapters/python/src")}
    with wire_driver.Worker(command, cwd=worker.folder(kind), env=env) as process:
        burst(process, options)
        without, samples = [], []
        for _ in range(options.bursts):
            without.append(burst(process, options))
            with wire_profile.Ticks(process, options.hz) as ticks:
                cost = burst(process, options)
            samples.append((cost, ticks.count))
            wire_profile.collected(process)
        quiet = min(without)
        sample = min((cost - quiet) / count for cost, count in samples)
        return quiet / REQUESTS, max(sample, 0)


def burst(process, options):
    """Microseconds of CPU of a burst."""
    begun = cpu(process)
    for _ in range(REQUESTS):
        response = process.get("/", query=str(options.depth))
        assert response.status == 200, process.log()
    return cpu(process) - begun


def cpu(process):
    """Microseconds that the worker's only thread has used."""
    with open(f"/proc/{process.process.pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e3


if __name__ == "__main__":
    sys.exit(main())
