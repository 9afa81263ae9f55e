"""An ASGI application that runs in Trio, and nowhere else."""

import trio


async def app(scope, receive, send):
    trio.lowlevel.current_task()  # raises outside of Trio
    if scope["type"] == "lifespan":
        await lifespan(scope["state"], receive, send)
    elif scope["type"] == "websocket":
        await echo(receive, send)
    elif scope["path"] == "/boom":
        raise ValueError("no such card")
    elif scope["path"] == "/hang":
        try:
            await trio.sleep_forever()
        finally:
            print("the request was cancelled")
    else:
        await respond(scope, receive, send)


async def lifespan(state, receive, send):
    await receive()
    await trio.sleep(0.01)
    state["from"] = b"Trio"
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await trio.sleep(0.01)
    print("the application has stopped")
    await send({"type": "lifespan.shutdown.complete"})


async def respond(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})

    async def first():
        await send({"type": "http.response.body", "body": b"%s has read %d" % (scope["state"]["from"], size), "more_body": True})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
    await send({"type": "http.response.body", "body": b" bytes"})


async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        await send({"type": "websocket.send", "text": message["text"].upper()})
