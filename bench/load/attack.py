#!/usr/bin/env python3
"""What clients that misuse a listener do to the others: all attacks of tests/apps/attacks at once, from another process, against the default limits.

    bench/load/attack.py [--seconds 180] [--keepwarm BINARY] [--strict] [--give-way | --apart]

A good client sends requests at a constant rate over TLS and HTTP/2: alone, while another Keepwarm is attacked, and while its own is. Its 99th percentile may grow to three times,
Keepwarm's memory by 64 MiB, and each attack must have been cut and counted. It needs the examples' packages (`scripts/setup test`).
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

import servers
import servers_tls

ROOT = servers.ROOT
ATTACKS = ROOT / "tests/apps/attacks"
CONNECTIONS = 8
RATE = 200
FLOOR = 3.0
# MiB. 46 connections at once, and as many again that the last of before have not left: 200 KiB each of heads, records and buffers is 18 MiB. Eight at
# once that read nothing hold 4 MiB each of responses.
MEMORY = 64
# An attack that is not over after this is not cut: an idle connection that reads nothing has 75 s, and then 30 s to receive what was sent.
PATIENCE = 150


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.apart:
        *ours, last = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, ours)
        options.attackers = {last}
    server = servers.Server("keepwarm", command, None, options.keepwarm, b"hello", "https")
    try:
        admin = re.search(r'\[admin\]\nbind = "([^"]+)"', (server.folder / "keepwarm.toml").read_text())[1]
        load(server, 2)
        quiet = load(server, max(options.seconds // 3, 2))
        beside = load_beside(server, options)
        before, most = resident(server), [0]
        attacking = attack(server, options.seconds, PATIENCE, options)
        over = threading.Event()
        watching = threading.Thread(target=watch, args=(server, over, most))
        watching.start()
        try:
            attacked = load(server, options.seconds)
            seen = json.loads(attacking.communicate(timeout=PATIENCE + 60)[0])
        finally:
            over.set()
            watching.join()
            attacking.kill()
        counted = metrics(admin)
    finally:
        server.stop()
    return 1 if report(quiet, beside, attacked, (most[0] - before) / 1024, seen, counted) and options.strict else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=180, help="length of the attacks")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a floor is missed")
    parser.add_argument("--give-way", action="store_true", help="the attackers get only the CPU time that the others leave, as if they ran on another machine")
    parser.add_argument("--apart", action="store_true", help="the attackers have the last processor, the server and its good client the others, as if they ran on another machine")
    parser.set_defaults(attackers=os.sched_getaffinity(0))
    return servers.arguments_with_keepwarm(parser)


def command(keepwarm_binary, port, folder, _target):
    cert, key, _ = servers_tls.identity()
    (folder / "site.pem").write_bytes(cert.read_bytes())
    (folder / "site.key").write_bytes(key.read_bytes())
    site = (ATTACKS / "site.toml").read_text()
    values = {"LIMITS": "", "TLS_LIMITS": "", "PORT": port, "ADMIN": servers.free_port(), "DIR": folder, "APPS": ROOT / "tests/apps",
              "PYTHON": ROOT / ".venv/bin/python"}  # fmt: skip
    for name, value in values.items():
        site = site.replace(f"@{name}@", str(value))
    file = folder / "keepwarm.toml"
    file.write_text(site)
    return [keepwarm_binary, "run", "--config", file]


def load(server, seconds):
    """The 99th percentile of the good client, in ms; every request must get a 200."""
    with tempfile.NamedTemporaryFile(prefix="keepwarm-bench-") as log:
        subprocess.run(
            ["h2load", "-t1", f"-c{CONNECTIONS}", f"-n{seconds * RATE}", f"--rps={RATE / CONNECTIONS}", f"--log-file={log.name}", f"{server.origin}/"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds * 4 + 60,
        )  # fmt: skip
        rows = [line.split("\t") for line in pathlib.Path(log.name).read_text().splitlines()]
    if len(rows) < seconds * RATE or any(row[1] != "200" for row in rows):
        raise SystemExit(f"the good client: {len(rows)} of {seconds * RATE} requests, {sum(row[1] != '200' for row in rows)} without a 200")
    return statistics.quantiles((int(row[2]) / 1000 for row in rows), n=100)[98]


def attack(server, seconds, patience, options):
    command = [sys.executable, ATTACKS / "attacks.py", str(server.port), str(seconds), str(patience)]
    if options.give_way:
        command = ["nice", "-n", "19", *command]
    with on(options.attackers):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def on(processors):
    """What is started meanwhile has these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def load_beside(server, options):
    """As `load`, while another Keepwarm is attacked: what the attacks take of the machine, and not of the server."""
    with on(options.attackers):
        other = servers.Server("another keepwarm", command, None, options.keepwarm, b"hello", "https")
    seconds = max(options.seconds // 3, 2)
    attacking = attack(other, seconds, 1, options)
    try:
        return load(server, seconds)
    finally:
        attacking.kill()
        attacking.wait()
        other.stop()


def watch(server, over, most):
    while not over.wait(0.1):
        most[0] = max(most[0], resident(server))


def resident(server):
    """KiB of Keepwarm itself, without its worker."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1])


def metrics(admin):
    text = urllib.request.urlopen(f"http://{admin}/metrics", timeout=30).read().decode()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))}


def report(quiet, beside, attacked, grown, seen, counted):
    """Prints it; gives how many floors were missed."""
    sums, expected = {}, {}
    for attack in seen.values():
        if attack["metric"]:
            expected[attack["metric"]] = expected.get(attack["metric"], 0) + attack["cut"]
            sums[attack["metric"]] = sum(counted.get(name, 0) for name in attack["metric"].split(" + "))
    print("| attack | made | cut |\n|---|---|---|")
    for name, attack in seen.items():
        print(f"| {name} | {attack['made']} | {attack['cut']} |")
    print("\n| metric | attacks | counted |\n|---|---|---|")
    for metric, count in expected.items():
        print(f"| `{metric}` | {count} | {sums[metric]:.0f} |")
    ratio = attacked / quiet
    missed = [ratio > FLOOR, grown > MEMORY, any(each["made"] != each["cut"] for each in seen.values()), any(sums[m] < n for m, n in expected.items())]
    print(f"\np99 of the good client: {quiet:.2f} ms quiet, {beside:.2f} ms while another Keepwarm is attacked, {attacked:.2f} ms attacked: {ratio:.2f} times, floor {FLOOR} {verdict(missed[0])}")
    print(f"memory: {grown:.1f} MiB more, floor {MEMORY} {verdict(missed[1])}; all cut {verdict(missed[2])}, all counted {verdict(missed[3])}")
    return sum(missed)


def verdict(missed):
    return "MISSED" if missed else "held"


if __name__ == "__main__":
    sys.exit(main())
