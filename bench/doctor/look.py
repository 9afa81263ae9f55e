"""An independent look at a server: what curl, ab, tcpdump and a plain socket see. Shares nothing with the doctor but the questions."""

import dataclasses
import re
import socket
import statistics
import subprocess
import time
import typing

# What waits longer than this waits for a timeout: of curl's expectation (1 s), or of a kept connection (seconds).
STALL = 0.9
# The clients' patience, in seconds.
PATIENCE = 3
# The least time for which Linux delays an acknowledgement is 40 ms.
DELAYED = 0.030
# No page that says hello takes longer, unless it boots.
BOOT = 0.050


@dataclasses.dataclass
class Look:
    """What was seen."""

    # `ab` without -k: seconds for a request, or nothing when it gave up.
    old: typing.Optional[float]
    # `ab -k`: how many of ten requests were on a kept connection.
    old_kept: int
    # `curl` with the same URL twice: whether the second went over the first one's connection.
    kept: bool
    # A plain socket: bytes behind the head of the response to HEAD, and to a conditional request, where the page has a validator and there is a 304.
    head: int
    conditional: typing.Optional[int]
    # `curl -X OPTIONS -H 'Expect: 100-continue'` with a body: whether a 100 came, the status, the seconds.
    expect: tuple
    # `tcpdump`: segments with data that the server sent in response to one request.
    segments: int
    # `curl`, a request on a new connection, the fastest of five; and the median of further requests on a kept connection, if it is kept.
    fresh: float
    further: typing.Optional[float]
    # `curl -0` without Host: status and seconds, by GET and by OPTIONS.
    check_get: tuple
    check_options: tuple
    # A plain socket: whether one read brings the status line, and the status for a client that closes its side behind the request.
    one_read: bool
    half_closed: str
    # `curl --request-target http://.../`
    absolute: tuple
    # A plain socket: the status of a malformed request, or a word.
    malformed: dict


MALFORMED = {
    "both lengths": "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    "two lengths": "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello!",
    "bare LF": "GET / HTTP/1.1\nHost: {host}\nConnection: close\n\n",
    "space before the colon": "GET / HTTP/1.1\r\nHost: {host}\r\nX-Name : value\r\nConnection: close\r\n\r\n",
    "folded line": "GET / HTTP/1.1\r\nHost: {host}\r\nX-Name: one\r\n two\r\nConnection: close\r\n\r\n",
    "no Host": "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two Hosts": "GET / HTTP/1.1\r\nHost: {host}\r\nHost: other.example\r\nConnection: close\r\n\r\n",
}


def look(port):
    url = f"http://127.0.0.1:{port}/"
    kept, further = twice(url)
    return Look(
        old=ab(url),
        old_kept=ab_kept(url),
        kept=kept,
        head=behind(port, "HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        conditional=conditional(port, url),
        expect=expect(url),
        segments=segments(url, port),
        fresh=min(timed(url)[1] for _ in range(5)),
        further=further if kept else None,
        check_get=timed(url, "-0", "-H", "Host:"),
        check_options=timed(url, "-0", "-H", "Host:", "-X", "OPTIONS"),
        one_read=status(port, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n") not in ("closed", "no status", "reset", "silence"),
        half_closed=status(port, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n", finish=True),
        absolute=timed(url, "--request-target", url),
        malformed={name: status(port, text) for name, text in MALFORMED.items()},
    )


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=60)


def curl(*arguments):
    return run("curl", "-sS", "--noproxy", "*", "-m", PATIENCE, *arguments)


def timed(url, *arguments):
    """Status and seconds; the status is 000 when none came."""
    status, seconds = curl("-o", "/dev/null", "-w", "%{http_code} %{time_total}", *arguments, url).stdout.split()
    return status, float(seconds)


def ab(url):
    done = run("ab", "-q", "-n", 3, "-c", 1, "-s", PATIENCE, url)
    found = re.search(r"Time per request: +([\d.]+) \[ms\] \(mean\)", done.stdout)
    return float(found.group(1)) / 1000 if found and done.returncode == 0 else None


def ab_kept(url):
    found = re.search(r"Keep-Alive requests: +(\d+)", run("ab", "-q", "-k", "-n", 10, "-c", 1, "-s", PATIENCE, url).stdout)
    return int(found.group(1)) if found else 0


def twice(url):
    """Whether a connection is kept, and how long further requests on it take."""
    urls = [word for _ in range(8) for word in ("-o", "/dev/null", url)]
    rows = [line.split() for line in curl("-w", "%{num_connects} %{time_total}\n", *urls).stdout.splitlines()]
    further = [float(seconds) for connects, seconds in rows if connects == "0"]
    return len(further) == len(rows) - 1, statistics.median(further) if further else None


def conditional(port, url):
    head = curl("-I", url).stdout
    tag = re.search(r"(?im)^etag: *(\S+)", head)
    since = re.search(r"(?im)^last-modified: *(.+?)\r?$", head)
    if not tag and not since:
        return None
    condition = f"If-None-Match: {tag.group(1)}" if tag else f"If-Modified-Since: {since.group(1)}"
    if timed(url, "-H", condition)[0] != "304":
        return None
    return behind(port, "GET / HTTP/1.1\r\nHost: {host}\r\n" + condition + "\r\n\r\n")


def behind(port, text):
    """Bytes that come behind the head of the response, before the end or a moment's silence."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        plain.sendall(text.format(host=f"127.0.0.1:{port}").encode())
        while chunk := plain.recv(4096):
            received += chunk
            if b"\r\n\r\n" in received:
                plain.settimeout(0.3)
                try:
                    received += plain.recv(4096)
                except socket.timeout:
                    pass
                break
    return len(received.partition(b"\r\n\r\n")[2])


def expect(url):
    done = curl("-v", "-o", "/dev/null", "-X", "OPTIONS", "-H", "Expect: 100-continue", "--data-binary", "hello", "-w", "%{http_code} %{time_total}", url)
    status, seconds = done.stdout.split()
    return bool(re.search(r"(?m)^< HTTP/1.1 100", done.stderr)), status, float(seconds)


def segments(url, port):
    """Segments with data from the server, for one request on a new connection."""
    capture = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-n", "-U", "-l", "--immediate-mode", "tcp and src port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in capture.stderr:
            if "listening on" in line:
                break
        curl("-o", "/dev/null", url)
        # What was seen is written at once; a moment for the last of it.
        time.sleep(0.3)
    finally:
        capture.terminate()
        seen, _ = capture.communicate(timeout=10)
    return sum(1 for length in re.findall(r"length (\d+)", seen) if int(length) > 0)


def status(port, text, finish=False):
    """The status of the first response to these bytes, or what happened instead."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
            plain.sendall(text.format(host=f"127.0.0.1:{port}").encode())
            if finish:
                plain.shutdown(socket.SHUT_WR)
            received = plain.recv(4096)
    except socket.timeout:
        return "silence"
    except OSError:
        return "reset"
    found = re.match(rb"HTTP/1\.[01] (\d{3})", received)
    return found.group(1).decode() if found else "closed" if not received else "no status"
