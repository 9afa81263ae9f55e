#!/usr/bin/env python3
"""What a measurement of `keepwarm leaks` costs a worker: CPU time of its process for each request that is measured, beside one that is not.

    bench/micro/leaks.py [wsgi|rack|php|symfony|django|sinatra|rails ...] [--requests N] [--smoke]

Prints the milliseconds of CPU of a request, of one that is measured (which traces what it allocates, and is counted after), and what the worker itself says
the counting took. `django` and `rails` are sites of the tests, whose packages are in the workspace's environment (scripts/setup test). Otherwise standard library
only.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "spec"))

import wire_driver  # noqa: E402
import wire_leaks  # noqa: E402
import worker  # noqa: E402

KINDS = ("wsgi", "rack", "php", "symfony", "django", "sinatra", "rails")
PATHS = {"django": "/admin/login/", "rails": "/greeting"}
WARM_UP = 5
SITE = ROOT / "tests/apps/django_site"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND", help=f"{', '.join(KINDS)} (default: all)")
    parser.add_argument("--requests", type=int, default=20, metavar="N", help="of each (default 20)")
    parser.add_argument("--smoke", action="store_true", help="two of each: does it work?")
    options = parser.parse_args()
    if options.smoke:
        options.requests = 2
    print(f"{'worker':<10}{'request':>12}{'measured':>12}{'counting':>12}")
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as data:
            request, measured, counting = measure(kind, options.requests, data)
        print(f"{kind:<10}{request:>9.2f} ms{measured:>9.2f} ms{counting:>9.2f} ms", flush=True)


def measure(kind, requests, data):
    """Milliseconds, the least of all requests: what else the machine does can only add."""
    path = PATHS.get(kind, "/")
    with started(kind, data) as process:
        usual = [cost(process, lambda: get(process, path)) for _ in range(WARM_UP + requests)][WARM_UP:]
        wire_leaks.begin(process)
        growth = []
        measured = [cost(process, lambda: growth.append(wire_leaks.measured(process, path))) for _ in range(WARM_UP + requests)][WARM_UP:]
        return min(usual), min(measured), statistics.median(one.microseconds for one in growth) / 1e3


def started(kind, data):
    """A worker of this kind."""
    env = {"PYTHONPATH": str(ROOT / "adapters/python/src"), "APP_ENV": "prod", "APP_CACHE_DIR": data, "DATA": data}
    if kind in ("sinatra", "rails"):
        return wire_driver.Worker([*worker.command("rack")[:-1], "config.ru"], cwd=ruby_site(kind, data), env={**env, "RACK_ENV": "production"})
    if kind != "django":
        return wire_driver.Worker(worker.command(kind), cwd=worker.folder(kind), env=env)
    python = str(ROOT / ".venv/bin/python")
    subprocess.run([python, "prepare.py"], cwd=SITE, env={"DATA": data, "PATH": ""}, check=True, stdout=subprocess.DEVNULL)
    return wire_driver.Worker([python, "-m", "keepwarm", "mysite.wsgi:application"], cwd=SITE, env=env)


def ruby_site(kind, data):
    """The folder of an app of Ruby; that of Rails is a copy, in which it makes its database."""
    if kind == "sinatra":
        return ROOT / "examples/sinatra"
    site = pathlib.Path(data) / "site"
    shutil.copytree(ROOT / "tests/apps/rails_site", site)
    for name in ("tmp", "log", "storage"):
        (site / name).mkdir()
    return site


def get(process, path):
    assert process.get(path).status == 200, process.log()


def cost(process, action):
    """Milliseconds that the worker's only thread has used for it."""
    begun = cpu(process)
    action()
    return cpu(process) - begun


def cpu(process):
    with open(f"/proc/{process.process.pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
