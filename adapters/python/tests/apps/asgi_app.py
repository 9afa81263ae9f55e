"""The ASGI application of the tests: a route for each thing to be tested."""

import asyncio
import contextvars
import hashlib
import json
import os
import sys
import tempfile

seen = []
variable = contextvars.ContextVar("variable", default="unset")
gate = None


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
    elif scope["type"] == "websocket":
        await SOCKETS[scope["path"]](scope, receive, send)
    else:
        path = scope["path"][len(scope["root_path"]) :]
        await ROUTES[path](scope, receive, send)


async def lifespan(scope, receive, send):
    global gate
    assert (await receive())["type"] == "lifespan.startup"
    gate = asyncio.Event()
    scope["state"]["started"] = ["shared"]
    print("started")
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    print("stopped")
    await send({"type": "lifespan.shutdown.complete"})


async def start(send, status=200, headers=(), **more):
    await send({"type": "http.response.start", "status": status, "headers": list(headers), **more})


async def body(send, data=b"", more=False):
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def respond(send, data, status=200):
    await start(send, status, [(b"content-type", b"text/plain"), (b"content-length", str(len(data)).encode())])
    await body(send, data)


async def as_json(send, thing):
    await respond(send, json.dumps(thing, default=lambda one: one.decode("latin-1")).encode())


async def read(receive):
    data, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request", message
        data += message["body"]
        more = message["more_body"]
    return data


async def hello(scope, receive, send):
    await respond(send, b"hello")


async def show_scope(scope, receive, send):
    await as_json(send, scope)


async def digest(scope, receive, send):
    size, sha = 0, hashlib.sha256()
    while True:
        message = await receive()
        size += len(message["body"])
        sha.update(message["body"])
        if not message["more_body"]:
            break
    await as_json(send, [size, sha.hexdigest()])


async def read_slowly(scope, receive, send):
    await gate.wait()
    await digest(scope, receive, send)


async def open_gate(scope, receive, send):
    gate.set()
    await respond(send, b"opened")


async def close_gate(scope, receive, send):
    gate.clear()
    await respond(send, b"closed")


async def wait_at_gate(scope, receive, send):
    await gate.wait()
    await respond(send, b"through")


async def holds_everything(scope, receive, send):
    """Stands in C and holds the interpreter's lock: no Python runs in this process."""
    import ctypes

    print("holding", flush=True)
    ctypes.PyDLL(None).sleep(60)


async def after_response(scope, receive, send):
    await respond(send, b"done")
    seen.append((await receive())["type"])
    seen.append((await receive())["type"])


async def was_seen(scope, receive, send):
    await as_json(send, seen)
    seen.clear()


async def fields(scope, receive, send):
    await start(send, 200, [[b"Set-Cookie", b"a=1"], (b"x-between", b"x"), (b"set-cookie", b"b=2")])
    await body(send, b"ok")


async def generator_of_fields(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": ((b"x-%d" % n, b"v") for n in range(3))})
    await send({"type": "http.response.body"})


async def stream(scope, receive, send):
    await start(send)
    await body(send, b"first", True)
    await body(send, b"", True)
    await body(send, b"second", True)
    await body(send)


async def held_start(scope, receive, send):
    await start(send)
    await gate.wait()
    await body(send, b"late")


async def big(scope, receive, send):
    size = int(scope["query_string"])
    await start(send)
    await body(send, bytes(range(256)) * (size // 256) + b"e" * (size % 256))


async def many_parts(scope, receive, send):
    await start(send)
    for _ in range(int(scope["query_string"])):
        await body(send, b"b" * 100_000, True)
    await body(send)


async def with_status(scope, receive, send):
    await start(send, int(scope["query_string"]))
    await body(send, b"a body")


async def fail_before(scope, receive, send):
    raise ZeroDivisionError("before the start")


async def fail_held(scope, receive, send):
    await start(send)
    raise ZeroDivisionError("the start is held")


async def fail_late(scope, receive, send):
    await start(send)
    await body(send, b"begun", True)
    raise ZeroDivisionError("after the start")


async def no_bytes(scope, receive, send):
    query = scope["query_string"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if query == b"late":
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await send({"type": "http.response.body", "body": "text", "more_body": query == b"more"})


async def no_start(scope, receive, send):
    return


async def no_end(scope, receive, send):
    await start(send)
    await body(send, b"begun", True)


async def too_short(scope, receive, send):
    await start(send, 200, [(b"content-length", b"10")])
    await body(send, b"abc", True)
    await body(send, b"def")


async def too_long(scope, receive, send):
    await start(send, 200, [(b"content-length", b"3")])
    await body(send, b"ab", True)
    await body(send, b"cd", True)
    await body(send, b"ef")


async def too_long_at_once(scope, receive, send):
    await start(send, 200, [(b"content-length", b"3")])
    await body(send, b"abcdef")


async def hop_by_hop(scope, receive, send):
    await start(send, 200, [(b"connection", b"close"), (b"transfer-encoding", b"chunked"), (b"x-kept", b"1")])
    await body(send, b"ok")


async def bad_field(scope, receive, send):
    bad = {b"n": (b"x-bad", b"a\nb"), b"z": (b"x-bad", b"a\0b"), b"t": (b"x bad", b"a"), b"s": ("x-bad", "text")}
    await start(send, 200, [bad[scope["query_string"]]])
    await body(send, b"never")


async def wrong_order(scope, receive, send):
    await body(send, b"before the start")


async def start_twice(scope, receive, send):
    await start(send)
    await start(send)


async def after_the_end(scope, receive, send):
    await respond(send, b"done")
    await body(send, b"more")


async def never_ends(scope, receive, send):
    await start(send)
    try:
        while True:
            await body(send, b"x" * 1000, True)
            await asyncio.sleep(0)
    except OSError as error:
        seen.append(type(error).__name__)
        raise


async def waits_for_the_end(scope, receive, send):
    await start(send)
    await body(send, b"begun", True)
    await receive()
    seen.append((await receive())["type"])
    try:
        await body(send, b"too late", True)
    except OSError as error:
        seen.append(type(error).__name__)


async def responds_to_a_client_that_closed(scope, receive, send):
    """It waits for its client's end, and responds all the same."""
    await read(receive)
    seen.append((await receive())["type"])
    await respond(send, b"all the same")


async def starts_again_once_told(scope, receive, send):
    """As the older examples of MCP over SSE do: a stream until the client closes, and an empty response behind it."""
    await read(receive)
    await start(send)
    await body(send, b"begun", True)
    seen.append((await receive())["type"])
    await start(send)


class ClientDisconnect(Exception):
    """Of the name of Starlette's."""


class WebSocketDisconnect(Exception):
    """Of the name of Starlette's."""


class Group(Exception):
    """As tasks of anyio's fail together."""

    def __init__(self, *exceptions):
        super().__init__("several")
        self.exceptions = exceptions


async def passes_the_disconnect_on(scope, receive, send):
    """As what Starlette's own responses raise."""
    await read(receive)
    try:
        if scope["query_string"] == b"receive":
            assert (await receive())["type"] == "http.disconnect"
            raise ClientDisconnect
        await start(send)
        while True:
            await body(send, b"x" * 1000, True)
            await asyncio.sleep(0)
    except OSError:
        if scope["query_string"] == b"with-another":
            raise Group(ClientDisconnect(), ZeroDivisionError("beside it")) from None
        raise Group(ClientDisconnect(), Group(ClientDisconnect())) from None


async def ws_lets_it_pass(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    assert (await receive())["type"] == "websocket.disconnect"
    raise WebSocketDisconnect


async def breaks_off(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            seen.append("http.disconnect")
            return


async def hints(scope, receive, send):
    if "http.response.early_hint" in scope["extensions"]:
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.js>; rel=preload"]})
    await respond(send, b"ok")


async def trailers(scope, receive, send):
    assert "http.response.trailers" in scope["extensions"]
    await start(send, trailers=True)
    await body(send, b"one ", True)
    await body(send, b"two")
    await send({"type": "http.response.trailers", "headers": [(b"x-a", b"1")], "more_trailers": True})
    await send({"type": "http.response.trailers", "headers": [(b"x-b", b"2")]})


async def path_send(scope, receive, send):
    size = int(scope["query_string"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"p" * size)
        file.flush()
        await start(send, 200, [(b"content-type", b"text/plain")])
        await send({"type": "http.response.pathsend", "path": file.name})


async def lost_path_send(scope, receive, send):
    """As Starlette's files behind middleware that holds the start until a body comes, and drops what it does not know, or does not expect it."""
    if "http.response.pathsend" not in scope["extensions"]:
        await start(send, 200)
        await body(send, b"read by the application")
        return
    if scope["query_string"] == b"fails":
        raise AssertionError("http.response.pathsend")
    if scope["query_string"] == b"started":
        await start(send, 200)
    await receive()


async def fails_like_a_lost_file(scope, receive, send):
    scope["extensions"].get("http.response.pathsend")
    raise FileNotFoundError("no such file")


async def too_many_fields(scope, receive, send):
    """More bytes than a frame has room for, of the kind that the query names."""
    much = [(b"x-n%d" % number, b"v" * 1000) for number in range(140)]
    what = scope["query_string"]
    if what == b"hint":
        await send({"type": "http.response.early_hint", "links": [b"</a>; " + b"v" * 140_000]})
    await start(send, headers=much if what == b"start" else (), trailers=True)
    await body(send, b"begun")
    await send({"type": "http.response.trailers", "headers": much})


async def ws_too_many_fields(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept", "headers": [(b"x-n", b"v" * 140_000)]})


async def ws_empty_beside_large(scope, receive, send):
    """Two tasks send; the second's message is empty, and must not break into the first's."""
    await receive()
    await send({"type": "websocket.accept"})
    large = asyncio.ensure_future(send({"type": "websocket.send", "text": "a" * 100_000}))
    await asyncio.sleep(0)
    await send({"type": "websocket.send", "text": ""})
    await large


async def sends_on(scope, receive, send):
    """A task of its own goes on sending when the application returns; what becomes of it is seen."""
    await start(send)
    await body(send, b"begun", True)

    async def on():
        try:
            await body(send, b"x" * 1_000_000, True)
        except Exception as error:
            seen.append(type(error).__name__)

    asyncio.ensure_future(on())
    await asyncio.sleep(0)


async def context(scope, receive, send):
    before = variable.get()
    variable.set("set by a request")
    await respond(send, before.encode())


async def state(scope, receive, send):
    had = sorted(scope["state"])
    scope["state"]["mine"] = 1
    scope["state"]["started"].append("more")
    await as_json(send, [had, len(scope["state"]["started"])])


async def background(scope, receive, send):
    await respond(send, b"responded")
    await gate.wait()
    seen.append("background")
    print("background is done")


async def prints(scope, receive, send):
    print("printed to stdout")
    print("printed to stderr", file=sys.stderr)
    await respond(send, b"ok")


async def fork(scope, receive, send):
    child = os.fork()
    if child == 0:
        await respond(send, b"written by the child, which must not be seen")
        return
    await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
    await respond(send, b"by the parent")


async def leave(scope, receive, send):
    sys.exit(7)


async def memory(scope, receive, send):
    raise MemoryError("no more")


async def recursion(scope, receive, send):
    def deeper():
        deeper()

    deeper()


async def echo(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    offered = scope["subprotocols"]
    await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None, "headers": [(b"x-ws", b"1")]})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            seen.append([message["code"], message["reason"]])
            return
        if message.get("text") == "close":
            await send({"type": "websocket.close", "code": 4001, "reason": "as you wish"})
            seen.append((await receive())["type"])
            return
        if message.get("text") == "fail":
            raise ZeroDivisionError("in a WebSocket")
        if message.get("text") == "return":
            return
        if message.get("text") == "scope":
            await send({"type": "websocket.send", "text": json.dumps({k: scope[k] for k in ("type", "scheme", "path", "subprotocols")})})
            continue
        if message.get("text") == "headers":
            shown = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
            await send({"type": "websocket.send", "text": json.dumps(shown)})
            continue
        await send({**message, "type": "websocket.send"})


async def ws_slow_reader(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    await gate.wait()
    total = 0
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        total += len(message.get("bytes") or message["text"])
        await send({"type": "websocket.send", "text": str(total)})


async def ws_refuse(scope, receive, send):
    await receive()
    await send({"type": "websocket.close"})
    seen.append((await receive())["type"])


async def ws_deny(scope, receive, send):
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"because")]})
    await send({"type": "websocket.http.response.body", "body": b"not ", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"you"})


async def ws_fail_first(scope, receive, send):
    raise ZeroDivisionError("before the acceptance")


async def ws_push(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})

    async def push(text):
        for _ in range(3):
            await send({"type": "websocket.send", "text": text * 100_000})

    try:
        await asyncio.gather(push("a"), push("b"))
    except OSError as error:
        seen.append(type(error).__name__)
        raise


async def ws_push_empty(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    for _ in range(65_536 // 64 + 2):
        await send({"type": "websocket.send", "text": ""})


async def ws_leaves(scope, receive, send):
    """It returns with messages unread: all of them have come with the first empty one."""
    await receive()
    await send({"type": "websocket.accept"})
    await asyncio.sleep(0.02)


ROUTES = {
    "/": hello, "/scope": show_scope, "/digest": digest, "/read-slowly": read_slowly, "/open-gate": open_gate,
    "/close-gate": close_gate, "/wait-at-gate": wait_at_gate, "/after-response": after_response, "/was-seen": was_seen,
    "/holds-everything": holds_everything, "/fields": fields, "/generator-of-fields": generator_of_fields, "/stream": stream, "/held-start": held_start, "/big": big,
    "/many-parts": many_parts, "/status": with_status, "/fail-before": fail_before, "/fail-held": fail_held,
    "/fail-late": fail_late, "/no-start": no_start, "/no-bytes": no_bytes, "/no-end": no_end, "/too-short": too_short, "/too-long": too_long,
    "/too-long-at-once": too_long_at_once, "/hop-by-hop": hop_by_hop, "/bad-field": bad_field, "/wrong-order": wrong_order,
    "/start-twice": start_twice, "/after-the-end": after_the_end, "/never-ends": never_ends,
    "/waits-for-the-end": waits_for_the_end, "/breaks-off": breaks_off, "/passes-the-disconnect-on": passes_the_disconnect_on,
    "/responds-to-a-client-that-closed": responds_to_a_client_that_closed, "/hints": hints, "/starts-again-once-told": starts_again_once_told, "/trailers": trailers,
    "/path-send": path_send, "/lost-path-send": lost_path_send, "/lost-file": fails_like_a_lost_file, "/context": context, "/state": state, "/background": background, "/prints": prints, "/fork": fork,
    "/leave": leave, "/memory": memory, "/recursion": recursion, "/too-many-fields": too_many_fields, "/sends-on": sends_on,
}  # fmt: skip
SOCKETS = {
    "/echo": echo, "/slow": ws_slow_reader, "/refuse": ws_refuse, "/deny": ws_deny, "/fail": ws_fail_first, "/push": ws_push,
    "/push-empty": ws_push_empty, "/leaves": ws_leaves, "/lets-it-pass": ws_lets_it_pass, "/too-many-fields": ws_too_many_fields, "/empty-beside-large": ws_empty_beside_large,
}  # fmt: skip
