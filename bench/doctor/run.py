#!/usr/bin/env python3
"""Examines the servers that people use with `keepwarm check`, looks at each by other means, and writes docs/doctor-matrix.md.

    scripts/doctor-matrix [--only NAME]... [--page FILE] [--json FILE]

Ends with status 1 when the doctor and the other look disagree anywhere, when a server is not recognized, or when something was found that explained.py does not explain.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import agree
import explained
import look
import page
import peers

PAGE = peers.ROOT / "docs" / "doctor-matrix.md"


def main():
    options = arguments()
    examined, faults = [], []
    for peer in peers.PEERS:
        if options.only and not any(part.lower() in peer.name.lower() for part in options.only):
            continue
        one = examine(options.binary, peer)
        examined.append(one)
        found = disagreements(one)
        faults += found
        print(f"{peer.name} {one.version}: {one.report['verdict']} in {one.report['seconds']:.1f} s", flush=True)
        for fault in found:
            print(f"    {fault}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([one.report for one in examined], indent=2) + "\n")
    if not options.only or options.page != PAGE:
        options.page.write_text(page.write(examined))
        print(f"written: {options.page}")
    print(f"{len(faults)} disagreements" if faults else "everything agrees")
    return 1 if faults else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", help="servers whose names contain this; no page is written then")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--json", type=pathlib.Path, help="the reports, as they came")
    default = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", peers.ROOT / "target")) / "release" / "keepwarm"
    parser.add_argument("--binary", type=pathlib.Path, default=default)
    return parser.parse_args()


def examine(binary, peer):
    server = peers.start(peer)
    try:
        url = f"http://127.0.0.1:{server.port}/"
        report = check(binary, url)
        intrusive = check(binary, url, "--only", "framing", "--intrusive")
        seen = look.look(server.port)
    finally:
        server.stop()
    return page.Examined(peer, peers.version(peer), report, intrusive, seen, agree.compare(seen, [report, intrusive]))


def check(binary, url, *options):
    done = subprocess.run([binary, "check", "--json", *options, url], capture_output=True, text=True, timeout=120)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise SystemExit(f"{binary} check {url}: {done.stdout}\n{done.stderr}") from error
    return report[0] if isinstance(report, list) else report


def disagreements(one):
    """What must not be, in words."""
    faults = [f"{what}? {seen} - {said}" for what, seen, said, same in one.compared if not same]
    known = one.peer.known or "unrecognized server"
    if one.report["server"] != known:
        faults.append(f"recognized as {one.report['server']}, not as {known}")
    for finding in page.worse(one.report) + page.worse(one.intrusive):
        if not explained.why(finding["id"], one.peer.name):
            faults.append(f"not explained: {finding['verdict']} {finding['id']}: {finding['evidence']}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
