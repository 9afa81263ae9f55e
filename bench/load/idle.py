#!/usr/bin/env python3
"""The memory of idle TLS connections, beside nginx, in one run.

    bench/load/idle.py [--connections 10000] [--keepwarm BINARY] [--strict] [--smoke]

Each server gets its connections in turn: TLS 1.3, HTTP/1.1, one request each, then silence. What counts is the anonymous memory of all its processes,
divided by the connections. The client's addresses are 127.0.1.x, so that ports do not run out. Standard library only.
"""

import argparse
import pathlib
import re
import selectors
import signal
import socket
import ssl
import sys

import servers
import servers_tls

FLOOR = 1.0
# Connections of one address, and handshakes at once.
PER_ADDRESS = 5000
AT_ONCE = 200
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    limit = servers_tls.raise_file_limit()
    if limit < options.connections + 500:
        raise SystemExit(f"the limit on open files is {limit}: `ulimit -Hn` must be above {options.connections + 500}")
    sides = {"keepwarm": servers_tls.keepwarm(idle_timeout="1h"), "nginx": servers_tls.nginx(connections=2 * options.connections, keepalive_timeout="1h")}
    each = {name: measure(name, command, options) for name, command in sides.items()}
    ratio = each["keepwarm"] / each["nginx"]
    held = "held" if ratio <= FLOOR else "MISSED"
    print(f"\n{options.connections} idle connections: {', '.join(f'{name} {size:.1f} KiB each' for name, size in each.items())}")
    print(f"ratio {ratio:.2f}, floor {FLOOR:.2f} {held}")
    return 1 if ratio > FLOOR and options.strict else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--strict", action="store_true", help="end with status 1 when the floor is missed")
    parser.add_argument("--smoke", action="store_true", help="a hundred connections: does it work? The figures mean nothing")
    options = servers.arguments_with_keepwarm(parser)
    if options.smoke:
        options.connections = 100
    return options


def measure(name, command, options):
    """KiB of a connection."""
    server = servers.Server(name, command, None, options.keepwarm, servers.BODY, "https")
    clients = []
    try:
        # What is made at first use, and the arenas of a burst of handshakes, belong to the server.
        close(connect(server, AT_ONCE if options.connections > AT_ONCE else 1))
        before = anonymous(server)
        while len(clients) < options.connections:
            clients += connect(server, min(AT_ONCE, options.connections - len(clients)), len(clients))
        after = anonymous(server)
        alive = sum(is_open(client) for client in clients)
        if alive < len(clients):
            raise SystemExit(f"{name}: {len(clients) - alive} of {len(clients)} connections were closed")
        print(f"{name}: {before} KiB before, {after} KiB with {len(clients)} connections", flush=True)
        return (after - before) / len(clients)
    finally:
        close(clients)
        server.stop()


def connect(server, count, first=0):
    """Connections that have had a response; all at once, as a browser's would come."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    clients, waiting = [], selectors.DefaultSelector()
    for number in range(first, first + count):
        plain = socket.socket()
        plain.bind((f"127.0.1.{1 + number // PER_ADDRESS}", 0))
        plain.connect(("127.0.0.1", server.port))
        plain.setblocking(False)
        client = context.wrap_socket(plain, do_handshake_on_connect=False)
        waiting.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE, [b""])
        clients.append(client)
    left = count
    while left:
        ready = waiting.select(30)
        if not ready:
            raise SystemExit(f"{server.name}: {left} of {count} connections got no response")
        for key, _ in ready:
            if advance(key.fileobj, key.data):
                waiting.unregister(key.fileobj)
                left -= 1
            else:
                # Until the server speaks, there is nothing to do.
                waiting.modify(key.fileobj, selectors.EVENT_READ, key.data)
    return clients


def advance(client, got):
    """Goes on with the handshake, the request or the response; whether that is whole."""
    try:
        if client.version() is None or not got[0] and not hasattr(client, "_asked"):
            client.do_handshake()
            client.sendall(REQUEST)
            client._asked = True
        while servers.BODY not in got[0]:
            part = client.recv(65_536)
            if not part:
                raise SystemExit("a connection was closed before its response")
            got[0] += part
        return True
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False


def is_open(client):
    try:
        return client.recv(1) != b""
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    except OSError:
        return False


def close(clients):
    for client in clients:
        client.close()


def anonymous(server):
    """KiB of the server's processes, without pages of their binaries."""
    total = 0
    for pid in servers.processes_below(server.process.pid):
        total += int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
    return total


if __name__ == "__main__":
    sys.exit(main())
