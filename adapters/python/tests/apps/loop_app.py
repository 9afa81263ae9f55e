"""An ASGI application that tells its event loop."""

import asyncio
import json


async def app(scope, receive, send):
    assert scope["type"] == "http"
    loop = asyncio.get_running_loop()
    body = json.dumps({"loop": type(loop).__module__, "debug": loop.get_debug()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
