"""The test application for WSGI, and three paths more: `/hold?mib=N&ms=N` keeps so much memory and takes so long, `/let-go` lets go of it,
`/priorities` tells the niceness that the worker was loaded with."""

import json
import os
import threading
import time

import wsgi_app

LOADED_WITH = os.nice(0)
HELD = []

# A thread has the priority of the one that starts it: this one is started while the app is loaded.
threading.Thread(target=threading.Event().wait, daemon=True).start()


def application(environ, start_response):
    handler = HANDLERS.get(environ["PATH_INFO"])
    if handler is None:
        return wsgi_app.application(environ, start_response)
    text = handler(wsgi_app.query(environ)).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


def hold(asked):
    HELD.append(b"\1" * (int(asked["mib"]) << 20))
    time.sleep(float(asked.get("ms", 0)) / 1000)
    return str(os.getpid())


def let_go(asked):
    HELD.clear()
    return str(os.getpid())


def priorities(asked):
    return json.dumps({"pid": os.getpid(), "loaded": LOADED_WITH})


HANDLERS = {"/hold": hold, "/let-go": let_go, "/priorities": priorities}
