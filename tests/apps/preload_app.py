"""An application that tells who has loaded it, and who serves it. WSGI: `application`; ASGI: `asynchronous`."""

import json
import os
import threading

from keepwarm.hooks import after_fork, before_fork

LOADED_BY = os.getpid()
HOOKS = []
BALLAST = bytearray(os.urandom(8 << 20))

with open(os.environ["COUNT_FILE"], "a") as file:
    file.write(f"load {LOADED_BY}\n")
if os.environ.get("START_THREAD"):
    threading.Thread(target=threading.Event().wait, name="metrics-flusher", daemon=True).start()
if os.path.exists(os.environ["COUNT_FILE"] + ".broken"):
    raise RuntimeError("the new version is broken")


@before_fork
def _before():
    HOOKS.append(f"before {os.getpid() == LOADED_BY}")


@after_fork
def _after():
    if os.environ.get("FAIL_AFTER_FORK"):
        raise RuntimeError("no database in this worker")
    HOOKS.append(f"after {os.getpid() == LOADED_BY}")


def _body():
    about = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "loaded_by": LOADED_BY,
        "hooks": HOOKS,
        "worker": os.environ["KEEPWARM_WORKER"],
    }
    return json.dumps(about).encode()


def application(environ, start_response):
    if environ["PATH_INFO"] == "/exit":
        os._exit(7)
    if environ["PATH_INFO"] == "/print":
        print(f"printed by {os.getpid()}")
    start_response("200 OK", [("Content-Type", "application/json")])
    return [_body()]


async def asynchronous(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": _body()})
