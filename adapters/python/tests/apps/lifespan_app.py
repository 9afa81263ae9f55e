"""An ASGI application whose start-up and shut-down do what BEHAVIOR says."""

import asyncio
import json
import os
import traceback

BEHAVIOR = os.environ["BEHAVIOR"]


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
        return
    body = json.dumps(scope["state"]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def fail(text):
    try:
        raise OSError("no disk")
    except OSError as error:
        raise ZeroDivisionError(text) from error


async def lifespan(scope, receive, send):
    if BEHAVIOR == "raises":
        raise ZeroDivisionError("no lifespan here")
    if BEHAVIOR == "raises-as-asgiref":
        raise ValueError("WSGI wrapper received a non-HTTP scope")
    if BEHAVIOR == "raises-early":
        fail("no settings")
    if BEHAVIOR == "returns":
        return
    await receive()
    if BEHAVIOR == "raises-in-it":
        fail("in the start-up")
    if BEHAVIOR.startswith("fails-") and BEHAVIOR != "fails-late":
        try:
            fail("no database")
        except ZeroDivisionError:
            text = "" if BEHAVIOR.endswith("nothing-said") else traceback.format_exc()
            await send({"type": "lifespan.startup.failed", "message": text})
            if "raises" in BEHAVIOR:
                raise
            return
    if BEHAVIOR == "exits":
        raise SystemExit(7)
    if BEHAVIOR == "fails":
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        return
    if BEHAVIOR == "hangs":
        await asyncio.Event().wait()
    if BEHAVIOR == "state":
        scope["state"]["key"] = "value"
    await send({"type": "lifespan.startup.complete"})
    if BEHAVIOR == "raises-between":
        raise ZeroDivisionError("between")
    await receive()
    if BEHAVIOR == "fails-late":
        await send({"type": "lifespan.shutdown.failed", "message": "no goodbye"})
        return
    if BEHAVIOR == "raises-late":
        raise ZeroDivisionError("late")
    await send({"type": "lifespan.shutdown.complete"})
