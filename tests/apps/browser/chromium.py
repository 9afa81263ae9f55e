"""Debian's Chromium without a window, driven over the DevTools protocol on a pipe: no port, no package beside the standard library."""

import fcntl
import json
import os
import select
import signal
import subprocess
import time

# The limit on what a busy machine may take for anything that is waited for.
BOUND = 90.0
# What keeps the browser from work of its own, and from other hosts than the test's.
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-extensions", "--disable-sync", "--metrics-recording-only", "--disable-quic",
]  # fmt: skip


class Browser:
    """A browser with a profile of its own in `home`, where it trusts the authority of the file `ca`, if there is one."""

    def __init__(self, home, ca, host, *options):
        if ca is not None:
            trust(home, ca)
        to_browser, ours = high_pipe()
        theirs, from_browser = high_pipe()
        self.write_end, self.read_end = ours, theirs
        self.unread, self.events, self.last_id = b"", [], 0

        def descriptors():
            # The protocol's place: 3 to the browser, 4 from it.
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        self.process = subprocess.Popen(
            ["chromium", *QUIET, "--remote-debugging-pipe", f"--user-data-dir={home}/profile", f"--host-resolver-rules=MAP {host} 127.0.0.1", *options],
            env=dict(os.environ, HOME=str(home)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(home / "chromium.log", "wb"),
            pass_fds=(3, 4), preexec_fn=descriptors, start_new_session=True,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)

    def command(self, method, session=None, **parameters):
        """Sends a command and returns its result; events that come meanwhile are kept."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data) :]
        deadline = time.monotonic() + BOUND
        while True:
            got = self.read(deadline, method)
            if got.get("id") != self.last_id:
                self.events.append(got)
            elif "error" in got:
                raise SystemExit(f"{method}: {got['error']}")
            else:
                return got["result"]

    def read(self, deadline, what):
        """The next message."""
        while b"\0" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise SystemExit(f"no message from the browser within {BOUND} s: {what}")
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise SystemExit(f"the browser has ended: {what}")
            self.unread += part
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The browser's processes are a session: all of them end, however the scenario ended.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Page:
    """A tab."""

    def __init__(self, browser):
        self.browser = browser
        target = browser.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.command(f"{domain}.enable")

    def command(self, method, **parameters):
        return self.browser.command(method, self.session, **parameters)

    def open(self, url):
        """Navigates, and waits until the page and all it refers to are loaded; returns the error, if there is one."""
        self.browser.events.clear()
        result = self.command("Page.navigate", url=url)
        if "errorText" not in result:
            self.wait_for("Page.loadEventFired")
        return result.get("errorText")

    def wait_for(self, name):
        """The next event of this name."""
        deadline = time.monotonic() + BOUND
        while True:
            for event in self.browser.events:
                if event.get("method") == name and event.get("sessionId") == self.session:
                    return event["params"]
            self.browser.events.append(self.browser.read(deadline, name))

    def responses(self):
        """The heads of all responses since the page was opened."""
        return [e["params"]["response"] for e in self.browser.events if e.get("method") == "Network.responseReceived" and e.get("sessionId") == self.session]

    def run(self, script, *values):
        """The value of an async function's body; `values` are its `arguments`."""
        text = ", ".join(json.dumps(value) for value in values)
        expression = f"(async function () {{ {script} }})({text})"
        result = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"the script failed: {json.dumps(result['exceptionDetails'])[:2000]}")
        return result["result"].get("value")


def trust(home, ca):
    """Makes the certificate database in which Chromium looks, with one authority."""
    database = home / ".pki/nssdb"
    database.mkdir(parents=True)
    for arguments in (["-N", "--empty-password"], ["-A", "-n", "test", "-t", "C,,", "-i", ca]):
        subprocess.run(["certutil", "-d", f"sql:{database}", *map(str, arguments)], stdin=subprocess.DEVNULL, check=True)


def high_pipe():
    """A pipe whose descriptors are not those that the browser gets."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high
