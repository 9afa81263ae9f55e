"""The service of auth_wsgi.py for ASGI."""

from auth_wsgi import decide


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    fields = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
    status, added, body = decide(scope["method"], lambda name: fields.get(name.lower(), ""))
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in added]
    headers.append((b"content-type", b"text/plain"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
