#!/usr/bin/env python3
"""`attacks.py PORT SECONDS PATIENCE`: clients that misuse a listener with TLS, all at once; prints what became of each attack, as JSON.

An attack is over when the server has ended its connection, which counts as `cut`, or after PATIENCE seconds, which does not. Its pace is bounded. The
site that it expects is `site.toml`. Standard library and `openssl` only.
"""

import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time

import frames
from frames import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, LARGEST_WINDOW, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE
from frames import frame, literal, request, setting

# Connections of each attack at once, and the least time between two of a connection's successors.
AT_ONCE = 2
PACE = 0.1
# More than buffers of the system hold.
LARGE = "/big?bytes=30000000"


class Client:
    """A connection to the server, for one attack."""

    def __init__(self, port, patience, context=None):
        self.deadline = time.monotonic() + patience
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(patience)
        plain.connect(("127.0.0.1", port))
        self.socket = context.wrap_socket(plain, server_hostname="localhost") if context else plain

    def send(self, data):
        """An end of the connection meanwhile is what the attack is after."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def is_cut(self):
        """Reads until the server ends the connection."""
        try:
            while time.monotonic() < self.deadline:
                self.socket.settimeout(max(self.deadline - time.monotonic(), 0.01))
                if not self.socket.recv(65_536):
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True
        return False

    def is_reset(self, probe=b""):
        """The same without reading a byte. What is sent meanwhile meets a closed socket, if it was closed and not reset."""
        poll = select.poll()
        poll.register(self.socket, 0)
        while time.monotonic() < self.deadline:
            if poll.poll(2000):
                return True
            self.send(probe)
        return False


def over_tls(protocol):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


HTTP1, HTTP2 = over_tls("http/1.1"), over_tls("h2")


def http1(data):
    def attack(port, patience):
        client = Client(port, patience, HTTP1)
        client.send(data)
        return client.is_cut()

    return attack


def http2(data, *settings):
    def attack(port, patience):
        client = Client(port, patience, HTTP2)
        client.send(frames.opening(*settings) + data)
        return client.is_cut()

    return attack


def never_reads(port, patience):
    client = Client(port, patience, HTTP1)
    client.send(f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client.is_reset()


def never_reads_http2(port, patience):
    client = Client(port, patience, HTTP2)
    client.send(frames.opening((INITIAL_WINDOW_SIZE, LARGEST_WINDOW)) + frame(WINDOW_UPDATE, 0, 0, (LARGEST_WINDOW - 65_535).to_bytes(4, "big")))
    client.send(b"".join(request(stream, path=LARGE) for stream in streams(4)))
    return client.is_reset(frame(PING, 0, 0, b"attacker"))


def stops_in_the_handshake(port, patience):
    """The first half of a real first flight."""
    sent = ssl.MemoryBIO()
    session = HTTP2.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    flight = sent.read()
    client = Client(port, patience)
    client.send(flight[: len(flight) // 2])
    return client.is_cut()


def speaks_no_tls(port, patience):
    client = Client(port, patience)
    client.send(b"\xff" + os.urandom(4096))
    return client.is_cut()


def says_nothing(port, patience):
    return Client(port, patience).is_cut()


def renegotiates(port, patience):
    """`R` makes s_client renegotiate; it ends when that is refused."""
    client = subprocess.Popen(
        ["openssl", "s_client", "-tls1_2", "-alpn", "http/1.1", "-connect", f"127.0.0.1:{port}"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        os.write(client.stdin.fileno(), b"R\n")
        _, said = client.communicate(timeout=patience)
        return b"no renegotiation" in said
    except (subprocess.TimeoutExpired, OSError):
        return False
    finally:
        client.kill()
        client.wait()


def streams(count):
    """The numbers of a client's streams."""
    return range(1, 2 * count, 2)


def hpack_bomb():
    """A header of 3,900 bytes in the dynamic table, and 11,000 references of one byte to it: 42 MB."""
    block = frames.head("GET", "/") + literal("x", "y" * 3900, 0x40) + b"\xbe" * 11_000
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, block)


def ended(reason):
    return f'keepwarm_http2_connections_ended_total{{listener="main",reason="{reason}"}}'


def refused(reason, app=""):
    return f'keepwarm_refusals_total{{app="{app}",reason="{reason}"}}'


def handshake(reason):
    return f'keepwarm_tls_handshake_failures_total{{listener="main",reason="{reason}"}}'


NEVER_READS = 'keepwarm_responses_cut_total{listener="main"} + ' + ended("http2_write_timeout")

# The metrics whose sum counts each. A client of HTTP/2 that never reads loses its responses, or its connection: what stalls for `write_timeout` first. A refused renegotiation (RFC 5746 §4.5) is an alert, after which the connection could continue: nothing is cut by a limit.
COUNTED = {
    "never_reads": NEVER_READS,
    "unfinished_head": refused("head_timeout"),
    "header_bomb": refused("header_block_too_large"),
    "slow_body": refused("body_too_slow", "app"),
    "stops_in_the_handshake": handshake("timeout"),
    "says_nothing": handshake("timeout"),
    "speaks_no_tls": handshake("not_tls"),
    "never_reads_http2": NEVER_READS,
    "unfinished_head_http2": ended("http2_head_timeout"),
    "rapid_reset": ended("http2_resets"),
    "made_you_reset": ended("http2_made_resets"),
    "continuations": ended("http2_continuations"),
    "empty_continuations": ended("http2_continuations"),
    "hpack_bomb": ended("http2_excess"),
    "invalid_hpack": ended("http2_protocol_error"),
    "window_above_the_limit": ended("http2_protocol_error"),
    "ping_flood": ended("http2_chatter"),
    "settings_flood": ended("http2_chatter"),
    "jumping_windows": ended("http2_chatter"),
    "window_update_flood": ended("http2_chatter"),
    "priority_flood": ended("http2_chatter"),
    "empty_data": ended("http2_chatter"),
}

# name -> how it is done
ATTACKS = {
    "never_reads": never_reads,
    "unfinished_head": http1(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Un"),
    "header_bomb": http1(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 400) for n in range(200)) + b"\r\n"),
    "slow_body": http1(b"POST /digest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx"),
    "stops_in_the_handshake": stops_in_the_handshake,
    "says_nothing": says_nothing,
    "speaks_no_tls": speaks_no_tls,
    "renegotiates": renegotiates,
    "never_reads_http2": never_reads_http2,
    "unfinished_head_http2": http2(frame(HEADERS, END_STREAM, 1, b"\x82")),
    "rapid_reset": http2(b"".join(request(n, path="/sleep?ms=50") + frame(RST_STREAM, 0, n, (8).to_bytes(4, "big")) for n in streams(200))),
    "made_you_reset": http2(
        b"".join(request(n, path="/sleep?ms=50") + frame(WINDOW_UPDATE, 0, n, LARGEST_WINDOW.to_bytes(4, "big")) for n in streams(700)),
    ),
    "continuations": http2(frame(HEADERS, END_STREAM, 1, frames.head("GET", "/")) + frame(CONTINUATION, 0, 1, literal("x", "y")) * 50),
    "empty_continuations": http2(frame(HEADERS, END_STREAM, 1) + frame(CONTINUATION, 0, 1) * 50),
    "hpack_bomb": http2(hpack_bomb()),
    "invalid_hpack": http2(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff" * 6)),
    "ping_flood": http2(frame(PING, 0, 0, b"attacker") * 400),
    "settings_flood": http2(frame(SETTINGS, 0, 0) * 400),
    "jumping_windows": http2(
        request(1, path=LARGE) + (frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, 0)) + frame(SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, 1))) * 200,
        (INITIAL_WINDOW_SIZE, 0),
    ),
    "window_update_flood": http2(frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big")) * 400),
    "window_above_the_limit": http2(frame(WINDOW_UPDATE, 0, 0, LARGEST_WINDOW.to_bytes(4, "big"))),
    "priority_flood": http2(frame(PRIORITY, 0, 3, (0).to_bytes(4, "big") + b"\x0f") * 2000),
    "empty_data": http2(request(1, "POST", "/digest", flags=0) + frame(DATA, 0, 1) * 400),
}


def main():
    port, seconds, patience = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    over = threading.Event()
    counts = {name: {"made": 0, "cut": 0, "metric": COUNTED.get(name)} for name in ATTACKS}
    lock = threading.Lock()

    def run(name, attack):
        while not over.is_set():
            try:
                cut = attack(port, patience)
            except OSError:
                cut = True  # in the handshake already
            with lock:
                counts[name]["made"] += 1
                counts[name]["cut"] += cut
            over.wait(PACE)

    threads = [threading.Thread(target=run, args=each) for each in ATTACKS.items() for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
