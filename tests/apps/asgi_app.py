"""The test application for ASGI: the same paths as wsgi_app.py, where they make sense. Standard library only."""

import asyncio
import hashlib
import json
import os
import signal
from urllib.parse import parse_qsl

DATE = b"Sun, 06 Nov 1994 08:49:37 GMT"
SILENCE = 0.03
TEXT = (b"content-type", b"text/plain")


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await websocket(scope, receive, send)
    else:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        handler = echo if "/any/" in path else HANDLERS.get(path)
        if handler is None:
            await respond(send, 404, [(b"content-length", b"0"), (b"x-app", b"asgi")], [b""])
        else:
            await handler(scope, receive, send)


async def lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def websocket(scope, receive, send):
    """Echoes; `close` as a text closes with 4001."""
    await receive()
    if scope["path"].endswith("/refuse"):
        await send({"type": "websocket.close"})
        return
    offered = scope.get("subprotocols") or [None]
    await send({"type": "websocket.accept", "subprotocol": offered[0]})
    if scope["path"].endswith("/at-once"):
        what = scope["query_string"].decode()
        if what == "raise":
            raise RuntimeError("right behind the acceptance")
        if what == "return":
            return
        if what.startswith("close"):
            await send({"type": "websocket.close", "code": int(what[5:]), "reason": "at once"})
            return
        await send({"type": "websocket.send", "text": "hello"})
        await send({"type": "websocket.send", "bytes": b"there"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            if path := os.environ.get("COUNT_FILE"):
                with open(path, "a") as lines:
                    lines.write(f"disconnect {message.get('code')}\n")
            return
        if message.get("text") == "close":
            await send({"type": "websocket.close", "code": 4001, "reason": "asked"})
        elif message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


def query(scope):
    return dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))


async def body_of(receive):
    blocks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(blocks)
        blocks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(blocks)


async def respond(send, status, headers, blocks):
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for number, block in enumerate(blocks):
        await send({"type": "http.response.body", "body": block, "more_body": number + 1 < len(blocks)})


def fixed(status, headers, blocks):
    async def application(scope, receive, send):
        await body_of(receive)
        await respond(send, status, headers, blocks)

    return application


async def silent(scope, receive, send):
    await body_of(receive)
    await send({"type": "http.response.start", "status": 200, "headers": [TEXT]})
    await send({"type": "http.response.body", "body": b"first,", "more_body": True})
    await asyncio.sleep(SILENCE)
    await send({"type": "http.response.body", "body": b"second", "more_body": False})


async def unread(scope, receive, send):
    await respond(send, 403, [(b"content-length", b"2")], [b"no"])


async def respond_then_read(scope, receive, send):
    """Begins its response, and only then reads."""
    await send({"type": "http.response.start", "status": 200, "headers": [TEXT]})
    await send({"type": "http.response.body", "body": b"begun,", "more_body": True})
    body = await body_of(receive)
    await send({"type": "http.response.body", "body": str(len(body)).encode(), "more_body": False})


async def echo(scope, receive, send):
    body = await body_of(receive)
    seen = {
        "method": scope["method"],
        "path": scope["path"],
        "raw_path": scope["raw_path"].decode("latin-1"),
        "root_path": scope["root_path"],
        "query_string": scope["query_string"].decode("latin-1"),
        "http_version": scope["http_version"],
        "scheme": scope["scheme"],
        "server": scope["server"],
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": body.decode("latin-1"),
    }
    text = json.dumps(seen).encode()
    await respond(send, 200, [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())], [text])


async def digest(scope, receive, send):
    total, sha, pieces = 0, hashlib.sha256(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        block = message.get("body", b"")
        total += len(block)
        sha.update(block)
        pieces += 1
        if not message.get("more_body"):
            break
    text = json.dumps({"length": total, "sha256": sha.hexdigest(), "pieces": pieces}).encode()
    await respond(send, 200, [(b"content-length", str(len(text)).encode())], [text])


async def mirror(scope, receive, send):
    """Sends each piece of the body back as it comes: both ways at once."""
    await send({"type": "http.response.start", "status": 200, "headers": [TEXT]})
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": more})


async def count(scope, receive, send):
    asked = query(scope)
    await body_of(receive)
    append(f"{asked['id']}\n")
    await asyncio.sleep(float(asked.get("ms", 0)) / 1000)
    text = str(os.getpid()).encode()
    await respond(send, 200, [(b"content-length", str(len(text)).encode())], [text])


def append(line):
    handle = os.open(os.environ["COUNT_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


async def lull(scope, receive, send):
    """Reads nothing for a while behind the first piece of the body."""
    first = await receive()
    print("the lull begins", flush=True)
    await asyncio.sleep(float(query(scope)["ms"]) / 1000)
    print("the lull is over", flush=True)
    rest = await body_of(receive)
    text = str(len(first["body"]) + len(rest)).encode()
    await respond(send, 200, [TEXT], [text])


async def sleep(scope, receive, send):
    await body_of(receive)
    await asyncio.sleep(float(query(scope)["ms"]) / 1000)
    await respond(send, 200, [TEXT], [b"pong"])


async def big(scope, receive, send):
    left = int(query(scope)["bytes"])
    await body_of(receive)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(left).encode())]})
    while left:
        block = min(left, 65536)
        left -= block
        await send({"type": "http.response.body", "body": b"0123456789abcdef" * (block // 16) + b"x" * (block % 16), "more_body": left > 0})


async def trailers(scope, receive, send):
    """A long body, a line for the log once it has been taken, and trailers."""
    left = int(query(scope)["bytes"])
    await body_of(receive)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"trailer", b"x-sum")], "trailers": True})
    while left:
        block = min(left, 65536)
        left -= block
        await send({"type": "http.response.body", "body": b"x" * block, "more_body": left > 0})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"7")]})
    print("trailers are sent", flush=True)


async def in_two(scope, receive, send):
    """A length, and the body in two parts."""
    await body_of(receive)
    await send({"type": "http.response.start", "status": 200, "headers": PONG})
    await send({"type": "http.response.body", "body": b"po", "more_body": True})
    await send({"type": "http.response.body", "body": b"ng", "more_body": False})


async def waits_for_disconnect(scope, receive, send):
    """Notes in the count file when it learns that the client has gone."""
    await body_of(receive)
    append("waiting\n")
    message = await receive()
    append(message["type"] + "\n")


async def waits_and_responds(scope, receive, send):
    """Responds with the message by which it learns that its client has closed."""
    await body_of(receive)
    append("waiting\n")
    await respond(send, 200, [TEXT], [(await receive())["type"].encode()])


async def raises(scope, receive, send):
    raise ValueError("before the response")


async def raises_late(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [TEXT]})
    await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
    raise ValueError("after the response began")


async def silent_return(scope, receive, send):
    """Returns without a response."""


async def die(scope, receive, send):
    os.kill(os.getpid(), signal.SIGKILL)


async def who(scope, receive, send):
    text = json.dumps({"pid": os.getpid(), "generation": os.environ.get("GENERATION", "")}).encode()
    await respond(send, 200, [(b"content-length", str(len(text)).encode())], [text])


INJECT = {"crlf": b"\r\nSet-Cookie: stolen=1", "lf": b"\nX-Stolen: 1", "cr": b"\rX-Stolen: 1", "nul": b"\0b", "double": b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"}


async def split(scope, receive, send):
    where = query(scope)["where"]
    name, value = b"x-split", b"a"
    if where == "name":
        name += b": 1\r\nX-Stolen"
    else:
        value += INJECT[where]
    await respond(send, 200, [(name, value), (b"content-length", b"4")], [b"pong"])


PONG = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
HOP = [
    (b"connection", b"keep-alive, x-private"),
    (b"x-private", b"1"),
    (b"keep-alive", b"timeout=1, max=1"),
    (b"transfer-encoding", b"identity"),
    (b"proxy-connection", b"keep-alive"),
    (b"x-kept", b"1"),
    (b"content-length", b"4"),
]
FIFTEEN = PONG + [(b"x-field-%d" % number, b"value-%d" % number) for number in range(1, 13)]

HANDLERS = {
    "/pong": fixed(200, PONG, [b"pong"]),
    "/list": fixed(200, [TEXT], [b"pong"]),
    "/empty": fixed(200, [], [b""]),
    "/short": fixed(200, [TEXT], [b"po", b"ng"]),
    "/long": fixed(200, [TEXT], [b"x" * 4096] * 50),
    "/silent": silent,
    "/204": fixed(204, [], [b""]),
    "/204-length": fixed(204, [(b"content-length", b"0"), TEXT], [b""]),
    "/204-body": fixed(204, [(b"content-length", b"4")], [b"body"]),
    "/304": fixed(304, [(b"etag", b'"1"')], [b""]),
    "/304-length": fixed(304, [(b"etag", b'"1"'), (b"content-length", b"0")], [b""]),
    "/205": fixed(205, [], [b""]),
    "/205-body": fixed(205, [(b"content-length", b"4")], [b"body"]),
    "/hop": fixed(200, HOP, [b"pong"]),
    "/chunked-itself": fixed(200, [(b"transfer-encoding", b"chunked")], [b"pong"]),
    "/close": fixed(200, [(b"connection", b"Close"), (b"content-length", b"4")], [b"pong"]),
    "/date": fixed(200, [(b"date", DATE), (b"server", b"app/1"), (b"content-length", b"4")], [b"pong"]),
    "/unread": unread,
    "/respond-then-read": respond_then_read,
    "/echo": echo,
    "/digest": digest,
    "/mirror": mirror,
    "/count": count,
    "/sleep": sleep,
    "/lull": lull,
    "/big": big,
    "/trailers": trailers,
    "/in-two": in_two,
    "/waits": waits_for_disconnect,
    "/waits-and-responds": waits_and_responds,
    "/fifteen": fixed(200, FIFTEEN, [b"pong"]),
    "/cookies": fixed(200, [(b"set-cookie", b"a=1; Path=/"), (b"set-cookie", b"b=2; Expires=Wed, 09 Jun 2031 10:18:14 GMT")], [b""]),
    "/raise": raises,
    "/raise-late": raises_late,
    "/silent-return": silent_return,
    "/die": die,
    "/who": who,
    "/split": split,
}
