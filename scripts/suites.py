#!/usr/bin/env python3
"""Runs the test suites: every test program of the workspace, its documentation's examples, and the adapters' suites, several at a time.

`cargo test` runs one test program after the other, and most of them wait more than they compute. A suite that passes is one line; the output of one that
fails is shown whole. Suites that take long begin first, so that none of them runs alone in the end.

    scripts/suites.py                   everything
    scripts/suites.py WORD...           only the suites with one of these words in their name
    scripts/suites.py --jobs N          so many at a time; by default one for each core, and one more
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Suites that take more than half a minute, the longest first.
LONG = (
    "tests/tls_scanners",
    "tests/frameworks_rails",
    "adapters/php",
    "adapters/ruby",
    "tests/browser",
    "tests/mixed",
    "adapters/",
    "tests/supervision",
    "tests/http_apps",
    "tests/sites",
    "tests/acme_on_demand",
    "examples in documentation",
)

# Suites that run once more with what a container leaves root (Docker's default capabilities), as Linux allows some things root alone.
IN_CONTAINERS = ("tests/drain", "tests/supervision", "tests/upgrade")
CAPABILITIES = (
    "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"
)

# A suite that takes longer hangs.
MOST_SECONDS = 20 * 60


class Suite:
    """A command, where it runs, and what came of it."""

    def __init__(self, name, command, folder, environment=None):
        self.name = name
        self.command = [str(word) for word in command]
        self.folder = folder
        self.environment = environment or {}
        self.seconds = 0.0
        self.cpu = 0.0
        self.problem = None
        self.output = ""

    def run(self):
        begin = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            hangs = threading.Timer(MOST_SECONDS, process.send_signal, [signal.SIGABRT])
            hangs.start()
            _, status, usage = os.wait4(process.pid, 0)
            hangs.cancel()
            self.seconds = time.monotonic() - begin
            self.cpu = usage.ru_utime + usage.ru_stime
            output.seek(0)
            self.output = output.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(status)
        if self.seconds >= MOST_SECONDS:
            self.problem = f"stopped after {MOST_SECONDS} s"
        elif code != 0:
            self.problem = f"exit status {code}" if code > 0 else signal.Signals(-code).name


def programs():
    """The test programs of the workspace, compiled, each run in its package's folder as cargo does."""
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        folder = Path(message["manifest_path"]).parent
        target = message["target"]
        name = f"{folder.name}/{target['name']}" if target["kind"] == ["test"] else f"{folder.name} ({target['kind'][0]})"
        environment = {"CARGO_MANIFEST_DIR": str(folder)}
        yield Suite(name, [message["executable"]], folder, environment)
        if name in IN_CONTAINERS and os.geteuid() == 0:
            limited = ["setpriv", f"--bounding-set={CAPABILITIES}", "--inh-caps=-all", message["executable"]]
            yield Suite(f"{name}, in a container", limited, folder, environment)


def interpreters():
    """The examples' interpreter, then one of each other version since 3.9, from PATH or pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [ROOT / ".venv/bin/python"]
    found += [which for minor in range(9, 14) if (which := shutil.which(f"python3.{minor}"))]
    found += [python for minor in range(9, 14) for python in sorted(pyenv.glob(f"3.{minor}.*/bin/python3"))]
    seen = set()
    for python in found:
        # pyenv's shims are on PATH for versions that are not active; only an interpreter that runs counts.
        shown = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
        version = re.match(r"Python (3\.\d+)", shown.stdout)
        if shown.returncode == 0 and version and version[1] not in seen:
            seen.add(version[1])
            yield python, shown.stdout.split()[1]


def adapters():
    unittest = ["-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."]
    for python, version in interpreters():
        folder = ROOT / "adapters/python"
        yield Suite(f"adapters/python on {version}", [python, *unittest], folder, {"PYTHONPATH": "src"})
    yield Suite("adapters/ruby", ["ruby", "-w", "adapters/ruby/tests/all.rb"], ROOT)
    yield Suite("adapters/php", [ROOT / ".venv/bin/python", *unittest], ROOT / "adapters/php")


def suites():
    yield from programs()
    yield Suite("examples in documentation", ["cargo", "test", "--workspace", "--locked", "--doc"], ROOT)
    yield from adapters()


def order(suite):
    for place, word in enumerate(LONG):
        if suite.name == word or (word.endswith("/") and suite.name.startswith(word)):
            return place
    return len(LONG)


def tests_in(output):
    """How many tests passed, as libtest, unittest or minitest says."""
    patterns = (r"(\d+) passed", r"Ran (\d+) tests?", r"(\d+) runs,")
    return sum(int(number) for pattern in patterns for number in re.findall(pattern, output))


class Runner:
    def __init__(self, waiting, jobs):
        self.waiting = sorted(waiting, key=order)
        self.jobs = jobs
        self.lock = threading.Lock()
        self.failed = []

    def work(self):
        while True:
            with self.lock:
                if not self.waiting:
                    return
                suite = self.waiting.pop(0)
            suite.run()
            with self.lock:
                self.report(suite)

    def report(self, suite):
        times = f"{suite.seconds:.1f} s, {suite.cpu:.1f} s of CPU"
        if suite.problem is None:
            print(f"ok      {suite.name}: {tests_in(suite.output)} tests, {times}", flush=True)
            return
        self.failed.append(suite.name)
        print(f"FAILED  {suite.name}: {suite.problem}, {times}; its output:\n{suite.output}", flush=True)

    def run(self):
        threads = [threading.Thread(target=self.work) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    options = parser.parse_args()
    chosen = [one for one in suites() if not options.words or any(word in one.name for word in options.words)]
    if not chosen:
        sys.exit("no suite has one of these words in its name: " + " ".join(options.words))
    begin = time.monotonic()
    failed = Runner(chosen, options.jobs).run()
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    print(f"{len(chosen)} suites in {time.monotonic() - begin:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
