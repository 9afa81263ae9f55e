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


HANDLERS = {"/who": who, "/hang": hang, "/block": block, "/gate": gate, "/late": late}
