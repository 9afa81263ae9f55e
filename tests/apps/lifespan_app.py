"""Notes start-up and shut-down in COUNT_FILE, and responds to everything with pong."""

from asgi_app import PONG, append, body_of, respond


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            append(message["type"] + "\n")
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await body_of(receive)
    await respond(send, 200, PONG, [b"pong"])
