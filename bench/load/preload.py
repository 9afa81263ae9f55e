#!/usr/bin/env python3
"""What `preload` changes: how soon a replacement is ready, and what memory a worker has of its own.

    scripts/setup bench && cargo build --release -p keepwarm
    bench/.venv/bin/python bench/load/preload.py [--replacements N] [--requests N]

Each example is run with and without `preload` on four workers, serves that many requests, and then has its workers killed one after the other. Ready
times are Keepwarm's own, from spawn or fork to the worker's HELLO (`boot_ms` in its log); memory is the kernel's (`/proc/PID/smaps_rollup`): Pss counts a page that n processes share
as an n-th, so that the sum over all processes, the template among them, is what the machine spends. Standard library only.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKERS = 4
PATIENCE = 60.0

APPS = {
    "Flask": f'entry = "shop.wsgi:application"\ndirectory = "{ROOT}/examples/wsgi-flask"\ninterpreter = "{ROOT}/.venv/bin/python"\n',
    "Sinatra": f'entry = "config.ru"\ndirectory = "{ROOT}/examples/sinatra"\n',
}


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("| app | preload | replacement ready, ms (least-greatest) | a worker's own memory, MiB | whole app, MiB |\n|---|---|---|---|---|")
    for name, app in APPS.items():
        for preload in (False, True):
            ready, own, whole = measure(options, app, preload)
            print(f"| {name} | {'yes' if preload else 'no'} | {statistics.median(ready):.0f} ({min(ready)}-{max(ready)}) | {own:.1f} | {whole:.1f} |",
                  flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replacements", type=int, default=20)
    parser.add_argument("--requests", type=int, default=2000, help="before memory is looked at")
    return servers.arguments_with_keepwarm(parser)


def measure(options, app, preload):
    """Ready times in ms; memory of one worker and of all the app's processes in MiB."""

    def command(keepwarm_binary, port, folder, _target):
        file = folder / "keepwarm.toml"
        file.write_text(
            f'[server]\nlog = {{ file = "{folder}/log" }}\n[listen.public]\nbind = "127.0.0.1:{port}"\n[[listen.public.route]]\napp = "app"\n'
            f"[app.app]\n{app}workers = {WORKERS}\npreload = {str(preload).lower()}\n"
        )
        return [keepwarm_binary, "run", "--config", file]

    server = servers.Server("keepwarm", command, None, options.keepwarm, b"")
    try:
        log = server.folder / "log"
        wait(lambda: len(ready_times(log)) >= WORKERS)
        subprocess.run(["ab", "-q", "-k", "-c", "16", "-n", str(options.requests), f"http://127.0.0.1:{server.port}/"], check=True, timeout=120,
                       stdout=subprocess.DEVNULL)
        workers = pids(log)
        own = statistics.median(memory(pid)["Private_Clean"] + memory(pid)["Private_Dirty"] for pid in workers)
        parents = {int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in workers} - {server.process.pid}
        whole = sum(memory(pid)["Pss"] for pid in {*workers, *parents})
        before = len(ready_times(log))
        for number in range(options.replacements):
            os.kill(pids(log)[-WORKERS], signal.SIGKILL)
            wait(lambda: len(ready_times(log)) > before + number)
        return ready_times(log)[before:], own / 1024, whole / 1024
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


READY = re.compile(r"\bpid=(\d+).*?\bboot_ms=(\d+).*worker ready|worker ready.*?\bpid=(\d+).*?\bboot_ms=(\d+)")


def ready(log):
    """Process id and ready time of each worker that was ready, the oldest first."""
    found = READY.findall(log.read_text())
    return [(int(a or c), int(b or d)) for a, b, c, d in found]


def ready_times(log):
    return [took for _, took in ready(log)]


def pids(log):
    """The last ones: those that run."""
    return [pid for pid, _ in ready(log)][-WORKERS:]


def memory(pid):
    """KiB by name."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def wait(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the workers are not ready")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
