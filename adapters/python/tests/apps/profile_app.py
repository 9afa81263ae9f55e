"""Functions that compute and that wait, for the tests of profiles: `application` for WSGI, `loop_application` for ASGI."""

import asyncio
import threading
import time

TIME = 0.3  # seconds


def compute(seconds=TIME):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1_000))


def wait(seconds=TIME):
    time.sleep(seconds)


def streamed():
    compute()
    yield b"done"


class Closing(list):
    def close(self):
        compute()


def beside():
    compute(2 * TIME)


def deep(depth):
    return compute() if depth == 0 else deep(depth - 1)


def application(environ, start_response):
    body, path = [b"done"], environ["PATH_INFO"]
    start_response("200 OK", [])
    if path == "/both":
        compute()
        wait()
    elif path == "/wait":
        wait()
    elif path == "/compute":
        compute()
    elif path == "/deep":
        deep(400)
    elif path == "/read":
        environ["wsgi.input"].read()
    elif path == "/streamed":
        return streamed()
    elif path == "/closing":
        return Closing(body)
    elif path == "/beside":
        thread = threading.Thread(target=beside)
        thread.start()
        while thread.is_alive():
            time.sleep(0.01)
    elif path == "/threads":
        body = [str(threading.active_count()).encode()]
    return body


async def aio_wait():
    await asyncio.sleep(TIME)


async def loop_application(scope, receive, send):
    if scope["type"] != "http":
        return
    path = scope["path"]
    if path == "/both":
        compute()
        await aio_wait()
    elif path == "/wait":
        await aio_wait()
    elif path == "/blocks":
        wait()
    elif path == "/read":
        while (await receive())["more_body"]:
            pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
    if path == "/after":
        await aio_wait()
