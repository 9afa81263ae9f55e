"""Requests that leave something behind, each in its own way, for the tests of LEAKS: `application` for WSGI, `loop_application` for ASGI."""

import asyncio
import functools
import gc
import sys
import threading
from collections import deque

seen = {}
log_of_all = deque()
local = threading.local()


class Item:
    all = []

    def __init__(self):
        self.data = bytearray(1_000)


class Slotted:
    __slots__ = ("items",)

    def __init__(self):
        self.items = set()


class Service:
    """A proxy-like object whose attributes nobody may touch."""

    def __init__(self):
        self.cache = {"of": [0]}

    def __getattr__(self, name):
        raise RuntimeError(f"{name} was read")

    def __len__(self):
        raise RuntimeError("its length was read")

    def __eq__(self, other):
        raise RuntimeError("it was compared")

    __hash__ = None


class Rude(functools.partial):
    @property
    def func(self):
        raise RuntimeError("its function was read")


class Ruder(staticmethod):
    @property
    def __func__(self):
        raise RuntimeError("its function was read")


ruder = Ruder(print)
service, slotted, rude = Service(), Slotted(), Rude(print, [])


@functools.lru_cache(maxsize=None)
def lookup(number):
    return str(number) * 100


def remember(number, known=[]):
    known.append(number)


def counter():
    numbers = []

    def count(number):
        numbers.append(number)

    return count


count = counter()


class Circle:
    def __init__(self):
        self.me = self
        self.data = bytearray(10_000)


class Closing(list):
    def close(self):
        Item.all.append(Item())


number = 0
recent = deque((Item() for _ in range(100)), maxlen=100)  # full from the start


def leak(path):
    """What a request of this path leaves behind."""
    global number
    number += 1
    if path == "/dict":
        seen[number] = str(number) * 100
    elif path == "/cache":
        lookup(number)
    elif path == "/cycle":
        Circle()
    elif path == "/local":
        local.__dict__.setdefault("items", []).append(number)
    elif path == "/objects":
        Item.all.append(Item())
    elif path == "/default":
        remember(number)
    elif path == "/closure":
        count(number)
    elif path == "/attribute":
        service.cache["of"].append(number)
    elif path == "/slots":
        slotted.items.add(number)
    elif path == "/deque":
        log_of_all.append(number)
    elif path == "/both":
        seen[number] = Item()
        seen.pop(number - 1, None)
    elif path == "/recent":
        recent.append(Item())
    elif path == "/raise":
        Item.all.append(Item())
        raise ValueError("after it has kept something")


def application(environ, start_response):
    path = environ["PATH_INFO"]
    leak(path)
    if path == "/read":
        environ["wsgi.input"].read()
    start_response("200 OK", [])
    return Closing([b"done"]) if path == "/close" else [b"done"]


later = set()


async def loop_application(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("there is nothing to start")
    path = scope["path"]
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            Item.all.append(Item())
        return
    leak(path)
    if path == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
    if path == "/after":
        await asyncio.sleep(0)
        Item.all.append(Item())
    elif path == "/task":
        task = asyncio.create_task(asyncio.sleep(3600))
        later.add(task)


def tracing_application(environ, start_response):
    """What of the measuring there is in this process."""
    path = environ["PATH_INFO"]
    leak(path)
    start_response("200 OK", [])
    if path == "/frozen":
        return [str(gc.get_freeze_count()).encode()]
    if path == "/loaded":
        return [" ".join(name for name in ("keepwarm.growth", "keepwarm.held", "tracemalloc") if name in sys.modules).encode()]
    return [str("tracemalloc" in sys.modules and sys.modules["tracemalloc"].is_tracing()).encode()]
