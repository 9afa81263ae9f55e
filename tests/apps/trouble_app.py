"""An application that keeps a book of what it does, and that does what it is asked to, however harmful: WSGI (`application`) and ASGI (`asgi`).

The book, `DIR/book`, gets a line when a request is begun (`b ID PID`) and one when all of its response has been made (`e ID PID`), each by one append, so that it
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


def end(asked):
    sys.exit(4)


def fail(asked):
    raise RuntimeError(f"request {asked['id']} was to fail")


def say(asked):
    for number in range(20):
        print(f"request {asked['id']} says line {number} of many", file=sys.stderr if number % 2 else sys.stdout)


def leak(asked):
    leaked.append(bytearray(os.urandom(6 << 20)))


def nothing(asked):
    pass


# What is done before the response, by path; nothing where there is no entry. `early`, `cut`, `late` and `hang` are done by the two applications themselves.
DEEDS = {"/die": die, "/leave": leave, "/exit": end, "/raise": fail, "/say": say, "/leak": leak}


def parts_of(path, asked, body):
    """The response's body, in parts, each with the request's name."""
    name = asked["id"].encode()
    if path == "/upload":
        return [b"%s %d %d" % (name, len(body), zlib.crc32(body))]
    if path in ("/stream", "/cut", "/late", "/large"):
        parts = [(name + b";") * (PART // (len(name) + 1)) for _ in range(int(asked["n"]))]
        return [b"".join(parts)] if path == "/large" else parts
    return [b""] if path == "/empty" else [name]


def status_of(path):
    return (204, "No Content") if path == "/empty" else (200, "OK")


def fields_of(path, asked, parts):
    fields = [("x-name", asked["id"])]
    if len(parts) == 1 and path != "/empty":
        fields.append(("content-length", str(len(parts[0]))))
    return fields


def asked_of(query):
    return dict(parse_qsl(query))


def pause_of(asked):
    return float(asked.get("pause", "2")) / 1000


def wait_of(path, asked):
    return 600 if path == "/hang" else float(asked["ms"]) / 1000


def at_the_last(path, asked):
    """Behind the last part but one."""
    if path == "/cut":
        os._exit(3)
    if path == "/late":
        fail(asked)
    note("e", asked)


def application(environ, start_response):
    path, asked = environ["PATH_INFO"], asked_of(environ["QUERY_STRING"])
    note("b", asked)
    body = b"" if path == "/early" else environ["wsgi.input"].read()
    DEEDS.get(path, nothing)(asked)
    if wait_of(path, asked):
        time.sleep(wait_of(path, asked))
    parts = parts_of(path, asked, body)
    status = "{} {}".format(*status_of(path))
    if len(parts) == 1:
        note("e", asked)
        start_response(status, fields_of(path, asked, parts))
        return parts
    start_response(status, fields_of(path, asked, parts))
    return in_parts(path, asked, parts)


def in_parts(path, asked, parts):
    for number, part in enumerate(parts):
        if number == len(parts) - 1:
            at_the_last(path, asked)
        yield part
        if pause_of(asked):
            time.sleep(pause_of(asked))


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    path, asked = scope["path"], asked_of(scope["query_string"].decode())
    # `strip_prefix` leaves the whole path here, and says what was stripped.
    path = path[len(scope["root_path"]) :]
    note("b", asked)
    body, more = b"", path != "/early"
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        body += event.get("body", b"")
        more = event.get("more_body", False)
    DEEDS.get(path, nothing)(asked)
    await asyncio.sleep(wait_of(path, asked))
    parts = parts_of(path, asked, body)
    headers = [(name.encode(), value.encode()) for name, value in fields_of(path, asked, parts)]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if last:
            at_the_last(path, asked)
        if number == 0:
            await send({"type": "http.response.start", "status": status_of(path)[0], "headers": headers})
        await send({"type": "http.response.body", "body": part, "more_body": not last})
        if not last:
            await asyncio.sleep(pause_of(asked))
