"""What goes wrong in an ASGI application, one path for each. `DIR` as in `hard_app`."""

import asyncio
import json
import os
import time

DIR = os.environ["DIR"]


async def application(scope, receive, send):
    if scope["type"] != "http":
        raise RuntimeError("HTTP only")
    await HANDLERS[scope["path"]](scope["query_string"].decode(), send)


async def text(send, said):
    body = said.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


async def who(query, send):
    loop = type(asyncio.get_running_loop()).__module__.split(".")[0]
    await text(send, json.dumps({"pid": os.getpid(), "loop": loop}))


async def hang(query, send):
    await deeper()


async def deeper():
    await asyncio.sleep(600)


async def block(query, send):
    """Holds up every other request of the worker."""
    time.sleep(600)


async def gate(query, send):
    """Responds once the file `query` is there; says before that it is here."""
    open(f"{DIR}/at-{query}", "w").close()
    while not os.path.exists(f"{DIR}/{query}"):
        await asyncio.sleep(0.005)
    await who(query, send)


async def late(query, send):
    """Sends more than anybody holds for a client that does not read, says when it has to wait, and hangs once it has been taken."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(400):
        part = asyncio.ensure_future(send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True}))
        if not (await asyncio.wait([part], timeout=0.5))[0]:
            print("it waits for its client", flush=True)
        await part
    await deeper()


WAITING = []


async def quiet(query, send):
    """Says something, and the rest once `/release` is requested. `query`: the media type."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", query.removeprefix("type=").encode())]})
    await send({"type": "http.response.body", "body": b"first,", "more_body": True})
    WAITING.append(asyncio.get_running_loop().create_future())
    await WAITING[-1]
    await send({"type": "http.response.body", "body": b"last"})


async def release(query, send):
    while WAITING:
        future = WAITING.pop()
        if not future.done():
            future.set_result(None)
    await text(send, "released")


HANDLERS = {"/who": who, "/hang": hang, "/block": block, "/gate": gate, "/late": late, "/quiet": quiet, "/release": release}
