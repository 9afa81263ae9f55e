"""Notes start-up and shut-down in COUNT_FILE, and answers everything with pong."""

from asgi_app import PONG, answer_with, append, body_of


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            append(message["type"] + "\n")
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await body_of(receive)
    await answer_with(send, 200, PONG, [b"pong"])
