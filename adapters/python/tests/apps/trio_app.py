"""An ASGI application in Trio, for what a worker shows of its tasks."""

import trio

gate = None


async def application(scope, receive, send):
    global gate
    if scope["type"] == "lifespan":
        await receive()
        gate = trio.Event()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/open-gate":
        gate.set()
    elif scope["path"] == "/wait-at-gate":
        await wait_at_gate()
    elif scope["path"] == "/wait-in-nursery":
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_below)
            nursery.start_soon(wait_beside)
    elif scope["path"] == "/read-twice":
        await receive()
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"through"})


async def wait_at_gate():
    await gate.wait()


async def wait_below():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_at_gate)


async def wait_beside():
    await trio.sleep_forever()
