#!/usr/bin/env python3
"""A server for scripts that breaks the rules of FastCGI. Standard library only.

    garbage_fastcgi.py -b SOCKET

It responds properly to questions about itself, so that it counts as healthy; what it does with a request is in the query.
"""

import os
import socket
import struct
import sys
import threading


def record(kind, request, content, padding=0):
    return struct.pack(">BBHHBB", 1, kind, request, len(content), padding, 0) + content + bytes(padding)


def head(request):
    return record(6, request, b"Content-Type: text/plain\r\n\r\n")


def end(request):
    return record(3, request, bytes(8))


RESPONSES = {
    b"ok": lambda r: head(r) + record(6, r, b"fine", 3) + end(r),
    b"text": lambda r: b"Segmentation fault (core dumped)\n",
    b"other": lambda r: record(6, r + 1, b"Content-Type: text/plain\r\n\r\nof another") + end(r + 1),
    b"late": lambda r: head(r) + record(6, r, b"fine") + end(r) + record(6, r, b"and more, for whoever comes next"),
    b"cut": lambda r: head(r) + record(6, r, b"half of it"),
    b"nothing": lambda r: b"",
    b"headless": lambda r: record(6, r, b"<html>no head</html>\n") + end(r),
    b"empty": lambda r: end(r),
    b"forged": lambda r: record(6, r, b"X-A: 1\rSet-Cookie: forged\r\n\r\n") + end(r),
    b"overloaded": lambda r: record(3, r, b"\0\0\0\0\2\0\0\0"),
    b"folded": lambda r: record(6, r, b"X-A : 1\r\n 2\r\nContent-Type: text/plain\r\n\r\nfine") + end(r),
    b"endless-head": lambda r: b"".join(record(6, r, b"X-%d: %s\r\n" % (n, b"y" * 60000)) for n in range(4)),
}


def read(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def serve(connection):
    query = b""
    try:
        while True:
            _, kind, request, length, padding, _ = struct.unpack(">BBHHBB", read(connection, 8))
            content = read(connection, length)
            read(connection, padding)
            if kind == 9:
                connection.sendall(record(10, 0, b"\x0f\x01FCGI_MPXS_CONNS0"))
                break
            if kind == 4 and length:
                query = content.partition(b"QUERY_STRING")[2].partition(b"CONTENT_TYPE")[0][:-2]
            if kind == 5 and not length:
                name = query.partition(b"=")[2]
                connection.sendall(RESPONSES[name](request))
                if name in (b"cut", b"nothing"):
                    break
    except (EOFError, OSError):
        pass
    connection.close()


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[sys.argv.index("-b") + 1])
    listener.listen()
    while True:
        connection, _ = listener.accept()
        if os.environ.get("GARBAGE"):
            connection.sendall(b"+OK POP3 ready\r\n")
            connection.close()
            continue
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
