"""Factories, nested attributes, and things that are no applications."""

from odd import __doc__ as package_doc  # only to be had when this is imported as a part of its package

assert package_doc


def make():
    def made(environ, start_response):
        start_response("200 OK", [])
        return [b"made"]

    return made


class nested:
    inner = staticmethod(make())


def either(*args):
    """Both kinds, so that only an option can tell."""
    if len(args) == 2:
        return make()(*args)
    return asynchronous(*args)


async def asynchronous(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})


def two(scope):
    return None
