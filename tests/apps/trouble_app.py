"""An application that keeps a book of what it does, and that does what it is asked to, however harmful: WSGI (`application`) and ASGI (`asgi`).

The book, `DIR/book`, gets a line when a request is begun (`b ID PID`) and one when all of its answer has been made (`e ID PID`), each by one append, so that it
is whole whatever becomes of the process.
"""

import asyncio
import os
import signal
import sys
import time
import zlib
from urllib.parse import parse_qsl

BOOK = f"{os.environ['DIR']}/book"
PART = 3_000
leaked = []


def note(kind, asked):
    handle = os.open(BOOK, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{kind} {asked['id']} {os.getpid()}\n".encode())
    finally:
        os.close(handle)


def die(asked):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(asked):
    os._exit(3)


def say(asked):
    for number in range(20):
        print(f"request {asked['id']} says line {number} of many", file=sys.stderr if number % 2 else sys.stdout)


def leak(asked):
    leaked.append(bytearray(os.urandom(6 << 20)))


def nothing(asked):
    pass


# What is done before the answer, by path. `cut` and `hang` are done by the two applications themselves.
DEEDS = {"/work": nothing, "/upload": nothing, "/stream": nothing, "/die": die, "/leave": leave, "/say": say, "/leak": leak, "/cut": nothing, "/hang": nothing}


def parts_of(path, asked, body):
    """The answer's body, in parts, each with the request's name."""
    name = asked["id"].encode()
    if path == "/upload":
        return [b"%s %d %d" % (name, len(body), zlib.crc32(body))]
    if path in ("/stream", "/cut"):
        return [(name + b";") * (PART // (len(name) + 1)) for _ in range(int(asked["n"]))]
    return [name]


def asked_of(query):
    return dict(parse_qsl(query))


def application(environ, start_response):
    path, asked = environ["PATH_INFO"], asked_of(environ["QUERY_STRING"])
    note("b", asked)
    body = environ["wsgi.input"].read()
    DEEDS[path](asked)
    time.sleep(600 if path == "/hang" else float(asked["ms"]) / 1000)
    parts = parts_of(path, asked, body)
    if len(parts) == 1:
        note("e", asked)
        start_response("200 OK", [("Content-Length", str(len(parts[0])))])
        return parts
    start_response("200 OK", [])
    return in_parts(path, asked, parts)


def in_parts(path, asked, parts):
    for number, part in enumerate(parts):
        if number == len(parts) - 1:
            if path == "/cut":
                os._exit(3)
            note("e", asked)
        yield part
        time.sleep(0.002)


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    path, asked = scope["path"], asked_of(scope["query_string"].decode())
    # `strip_prefix` leaves the whole path here, and says what was stripped.
    path = path[len(scope["root_path"]) :]
    note("b", asked)
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body += event.get("body", b"")
        more = event.get("more_body", False)
    DEEDS[path](asked)
    await asyncio.sleep(600 if path == "/hang" else float(asked["ms"]) / 1000)
    parts = parts_of(path, asked, body)
    headers = [(b"content-length", str(len(parts[0])).encode())] if len(parts) == 1 else []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if last:
            if path == "/cut":
                os._exit(3)
            note("e", asked)
        if number == 0:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": part, "more_body": not last})
        if not last:
            await asyncio.sleep(0.002)
