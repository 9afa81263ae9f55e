"""The smallest applications: what is measured is the server."""

BODY = b"Hello, world!"
FIELDS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(name.lower().encode(), value.encode()) for name, value in FIELDS],
}
END = {"type": "http.response.body", "body": BODY}


def wsgi(environ, start_response):
    start_response("200 OK", FIELDS)
    return [BODY]


async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send(START)
        await send(END)
    else:
        # No lifespan: every server tries one, and goes on without.
        raise NotImplementedError(scope["type"])
