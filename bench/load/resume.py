#!/usr/bin/env python3
"""`resume.py PORT THREADS SECONDS`: a TLS 1.3 connection for each request, with the session of the one before; prints counts as JSON.

Tickets are read with the response, and each is used once (RFC 8446, C.4).
"""

import json
import socket
import ssl
import sys
import threading
import time

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def main():
    port, threads, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    counts = {"requests": 0, "full": 0}
    lock, over = threading.Lock(), time.monotonic() + seconds

    def run():
        requests = full = 0
        context = settings()
        _, session = ask(context, port, None)
        while time.monotonic() < over:
            reused, session = ask(context, port, session)
            requests += 1
            full += not reused
        with lock:
            counts["requests"] += requests
            counts["full"] += full

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    print(json.dumps(counts))


def settings():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def ask(context, port, session):
    """Whether the session was resumed, and the one for the next connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as secured:
            secured.sendall(REQUEST)
            response = b""
            while part := secured.recv(65_536):
                response += part
            if not response.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"no success: {response[:200]!r}")
            return secured.session_reused, secured.session


if __name__ == "__main__":
    main()
