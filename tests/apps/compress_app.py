"""ASGI: responses that the query describes, for the tests of compression. Standard library only.

/say?status=200&length=1&bytes=5000&parts=7&cut=3&header=Name:value    header may be given again
/tagged          compares If-None-Match as a string, as many applications do
/events          server-sent events, one for every request of /next
/silent          the head of such a response, and nothing else
/known           a body of known length, whose second half waits for /next
"""

import asyncio
from urllib.parse import parse_qsl

LINE = b"<li class=item>0123456789abcdef"
steps = asyncio.Semaphore(0)


def body_of(count):
    return (b"".join(b"%s %d</li>\n" % (LINE, number) for number in range(count // len(LINE) + 1)))[:count]


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    paths = {"/tagged": tagged, "/events": events, "/silent": silent, "/known": known, "/next": step}
    await paths.get(scope["path"], say)(scope, send)


async def begin(send, status, headers):
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def part(send, body, more=False):
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def say(scope, send):
    asked = parse_qsl(scope["query_string"].decode())
    one = dict(asked)
    body = body_of(int(one.get("bytes", 5000)))
    headers = [tuple(text.encode() for text in value.split(":", 1)) for name, value in asked if name == "header"]
    if not any(name.lower() == b"content-type" for name, _ in headers):
        headers.append((b"content-type", b"text/html; charset=utf-8"))
    if "length" in one:
        headers.append((b"content-length", str(len(body) + int(one["length"])).encode()))
    await begin(send, int(one.get("status", 200)), headers)
    size = -(-len(body) // int(one.get("parts", 1))) or 1
    for number, start in enumerate(range(0, len(body), size)):
        if number == int(one.get("cut", -1)):
            raise RuntimeError("cut")
        await part(send, body[start : start + size], more=True)
    await part(send, b"")


async def tagged(scope, send):
    conditions = [value for name, value in scope["headers"] if name == b"if-none-match"]
    if b'"v1"' in conditions:
        await begin(send, 304, [(b"etag", b'"v1"')])
        return await part(send, b"")
    body = body_of(5000)
    seen = b"; ".join(value for name, value in scope["headers"] if name in (b"if-none-match", b"if-match"))
    await begin(send, 200, [(b"content-type", b"text/plain"), (b"etag", b'"v1"'), (b"accept-ranges", b"bytes"), (b"x-seen", seen)])
    await part(send, body)


async def events(scope, send):
    await begin(send, 200, [(b"content-type", b"text/event-stream")])
    # The head, and nothing else.
    await part(send, b"", more=True)
    for number in range(3):
        await steps.acquire()
        await part(send, b"data: %d\n\n" % number, more=True)
    await steps.acquire()
    await part(send, b"")


async def silent(scope, send):
    await begin(send, 200, [(b"content-type", b"text/event-stream")])
    await part(send, b"", more=True)
    await asyncio.Event().wait()


async def known(scope, send):
    await begin(send, 200, [(b"content-type", b"text/plain"), (b"content-length", b"2000")])
    await part(send, b"a" * 999 + b"\n", more=True)
    await steps.acquire()
    await part(send, b"b" * 999 + b"\n", more=True)
    # All of it is there, though the application goes on.
    await steps.acquire()
    await part(send, b"")


async def step(scope, send):
    steps.release()
    await begin(send, 204, [])
    await part(send, b"")
