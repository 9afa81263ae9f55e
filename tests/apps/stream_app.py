"""ASGI: responses that never end by themselves, and WebSockets that only listen. What the application learns of the end is counted."""

import asyncio
import os


def count(line):
    with open(os.environ["COUNT_FILE"], "a") as lines:
        lines.write(f"{line}\n")


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            count(message["type"])
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        return await websocket(receive, send)
    if scope["path"] != "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"pong"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    ticks = asyncio.ensure_future(tick(send))
    await receive()
    count((await receive())["type"])
    ticks.cancel()


async def tick(send):
    while True:
        await send({"type": "http.response.body", "body": b"data: tick\n\n", "more_body": True})
        await asyncio.sleep(0.02)


async def websocket(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            count(f"{message['type']} {message['code']}")
            return
        await send({"type": "websocket.send", "text": message["text"]})
