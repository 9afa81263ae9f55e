"""An HTTP server that does everything wrong, for the tests: a thread for each connection, a behavior for each path.

It never sends `100 Continue`, and keeps every connection open that its behavior does not close.
"""

import os
import signal
import socket
import sys
import threading
import time

marked = set()  # open connections that have carried a request for /marked
asked = set()  # open connections that have carried a request for /once
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def main():
    listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=512)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def serve(connection):
    try:
        with connection, connection.makefile("rb") as reader:
            while request := read_request(reader):
                if BEHAVIORS.get(request[0], hello)(connection, *request) == "close":
                    return
    except OSError:
        pass
    finally:
        marked.discard(connection)
        asked.discard(connection)


def read_request(reader):
    line = reader.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split()
    fields = {}
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.lower()] = value.strip()
    path = target.split("?")[0]
    body = b"" if path == "/early" else reader.read(int(fields.get("content-length", 0)))
    return path, method, fields, body


def hello(connection, *_):
    connection.sendall(HELLO)


def say(*parts):
    """Sends each part in a segment of its own, as far as the kernel allows."""

    def behavior(connection, *_):
        for part in parts:
            connection.sendall(part)

    return behavior


def say_and_close(*parts):
    def behavior(connection, *request):
        say(*parts)(connection, *request)
        return "close"

    return behavior


def echo_body(connection, _path, _method, _fields, body):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def mark(connection, *_):
    marked.add(connection)
    time.sleep(0.1)  # so that requests which are sent together overlap
    text = str(len(marked)).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


def once(connection, *_):
    if connection in asked:
        return "close"
    asked.add(connection)
    connection.sendall(HELLO)


def pid(connection, *_):
    text = str(os.getpid()).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))


def stop(*_):
    """Hangs the whole process: it no longer accepts connections or responds."""
    os.kill(os.getpid(), signal.SIGSTOP)
    threading.Event().wait()


def leave(*_):
    os._exit(3)


BEHAVIORS = {
    "/bytes": say(*(bytes([byte]) for byte in HELLO)),
    "/chunk-bytes": say(*(bytes([b]) for b in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")),
    "/body": echo_body,
    # Responds before it reads the body, and closes.
    "/early": say_and_close(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"),
    "/pid": pid,
    "/marked": mark,
    # Closes as soon as it has responded, and does not say so.
    "/closes": say_and_close(HELLO),
    # Responds once on each connection, and closes it as the next request arrives: as idle, from its point of view.
    "/once": once,
    "/until-close": say_and_close(b"HTTP/1.0 200 OK\r\n\r\n", b"hello"),
    "/bare-lf": say(b"HTTP/1.1 200 OK\nContent-Length: 5\nX-Mended: yes\n\nhello"),
    "/folded": say(b"HTTP/1.1 200 OK\r\nX-Folded: one\r\n two\r\nContent-Length: 5\r\n\r\nhello"),
    "/blank-colon": say(b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"),
    # Faults that could move a boundary.
    "/garbage": say_and_close(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "/two-lengths": say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    "/both": say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "/bad-chunk": say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "/unasked-switch": say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "/trailing": say(HELLO + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
    "/nothing": say_and_close(),
    "/half-head": say_and_close(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "/short": say_and_close(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"),
    "/endless-head": say_and_close(b"HTTP/1.1 200 OK\r\n" + b"X-Endless: %s\r\n" % (b"x" * 1000) * 100),
    "/many-early": say(b"HTTP/1.1 102 Processing\r\n\r\n" * 50 + HELLO),
    "/hop-by-hop": say(
        b"HTTP/1.1 200 OK\r\nConnection: close, X-Private\r\nKeep-Alive: timeout=3\r\nX-Private: 1\r\n"
        b"Proxy-Connection: close\r\nContent-Length: 5\r\n\r\nhello"
    ),
    "/stop": stop,
    "/leave": leave,
}

if __name__ == "__main__":
    sys.exit(main())
