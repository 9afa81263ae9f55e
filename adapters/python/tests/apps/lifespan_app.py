"""An ASGI application whose start-up and shut-down do what BEHAVIOUR says."""

import asyncio
import json
import os
import traceback

BEHAVIOUR = os.environ["BEHAVIOUR"]


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
    if BEHAVIOUR == "raises":
        raise ZeroDivisionError("no lifespan here")
    if BEHAVIOUR == "raises-early":
        fail("no settings")
    if BEHAVIOUR == "returns":
        return
    await receive()
    if BEHAVIOUR == "raises-in-it":
        fail("in the start-up")
    if BEHAVIOUR.startswith("fails-") and BEHAVIOUR != "fails-late":
        try:
            fail("no database")
        except ZeroDivisionError:
            text = "" if BEHAVIOUR.endswith("nothing-said") else traceback.format_exc()
            await send({"type": "lifespan.startup.failed", "message": text})
            if "raises" in BEHAVIOUR:
                raise
            return
    if BEHAVIOUR == "exits":
        raise SystemExit(7)
    if BEHAVIOUR == "fails":
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        return
    if BEHAVIOUR == "hangs":
        await asyncio.Event().wait()
    if BEHAVIOUR == "state":
        scope["state"]["key"] = "value"
    await send({"type": "lifespan.startup.complete"})
    if BEHAVIOUR == "raises-between":
        raise ZeroDivisionError("between")
    await receive()
    if BEHAVIOUR == "fails-late":
        await send({"type": "lifespan.shutdown.failed", "message": "no goodbye"})
        return
    if BEHAVIOUR == "raises-late":
        raise ZeroDivisionError("late")
    await send({"type": "lifespan.shutdown.complete"})
