"""An ASGI application that fails in many ways."""

import asyncio
import gc
import json
import logging
import os
import threading


def pay():
    raise ValueError("no such card")


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        if "FAIL" in os.environ:
            try:
                pay()
            except ValueError as error:
                raise RuntimeError("in vain\nfor two reasons") from error
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    path = scope["path"]
    if path == "/lines":
        raise ValueError("no such card:\n[INFO] 4711\n\nnor any other")
    if path == "/thread":
        thread = threading.Thread(target=pay)
        thread.start()
        thread.join()
    if path == "/task":
        asyncio.get_running_loop().create_task(pay_later())
        await asyncio.sleep(0)
        gc.collect()
    if path == "/logged":
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))  # no level
        logging.getLogger("shop").addHandler(handler)
        try:
            raise ValueError("first\n[INFO] second\n\nlast of it")
        except ValueError:
            logging.getLogger("shop").exception("cannot pay,\nnor refuse")
    if path == "/json":
        print(json.dumps({"event": "no such card", "level": "error", "trace": "Traceback (most recent call last):\n  x"}))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ready"})


async def pay_later():
    pay()
