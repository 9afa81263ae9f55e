"""An ASGI application that sends and receives at the same time, each as much as it is given room for. Standard library only."""

import asyncio

BLOCK = b"x" * 262_144
BLOCKS = 64


async def application(scope, receive, send):
    if scope["type"] == "http":
        await http(receive, send)
    elif scope["type"] == "websocket":
        await websocket(receive, send)
    else:
        raise NotImplementedError(scope["type"])


async def http(receive, send):
    """Sends 16 MiB while it reads the body, and its length behind them."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    flood = asyncio.create_task(send_body(send))
    length = 0
    while True:
        message = await receive()
        length += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    await flood
    await send({"type": "http.response.body", "body": b"%d" % length})


async def send_body(send):
    for _ in range(BLOCKS):
        await send({"type": "http.response.body", "body": BLOCK, "more_body": True})


async def websocket(receive, send):
    """`flood`: sends 16 MiB, in the background; `count`: how many bytes of messages came, behind that; `deaf`: receives nothing more."""
    await receive()
    await send({"type": "websocket.accept"})
    flood, length = None, 0
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text == "flood":
            flood = asyncio.create_task(send_messages(send))
        elif text == "count":
            await flood
            await send({"type": "websocket.send", "text": str(length)})
        elif text == "deaf":
            await send({"type": "websocket.send", "text": "deaf"})
            await asyncio.sleep(3600)
        else:
            length += len(message["bytes"])


async def send_messages(send):
    for _ in range(BLOCKS):
        await send({"type": "websocket.send", "bytes": BLOCK})
