"""What goes wrong in a WSGI application, one path for each. `DIR` is the server's folder: `count` there gets a line for each request that was
begun, `PID ID`; a file of a given name there opens a gate."""

import ctypes
import hashlib
import json
import os
import signal
import threading
import time
from urllib.parse import parse_qsl

DIR = os.environ["DIR"]
meeting = threading.Condition()
met = 0


def application(environ, start_response):
    asked = dict(parse_qsl(environ.get("QUERY_STRING", "")))
    if "id" in asked:
        count(asked["id"])
    return HANDLERS[environ["PATH_INFO"]](environ, start_response, asked)


def count(line):
    handle = os.open(f"{DIR}/count", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{os.getpid()} {line}\n".encode())
    finally:
        os.close(handle)


def text(start_response, said):
    body = said.encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def who(environ, start_response, asked):
    """Which worker responds."""
    said = {"pid": os.getpid(), "thread": threading.current_thread().name, "multithread": environ["wsgi.multithread"]}
    return text(start_response, json.dumps(said))


def hang(environ, start_response, asked):
    time.sleep(600)


def hold_the_lock(environ, start_response, asked):
    """Stands in C and holds the interpreter's lock."""
    ctypes.PyDLL(None).sleep(600)


def die(environ, start_response, asked):
    """Dies, until the file `mended` is there."""
    if not os.path.exists(f"{DIR}/mended"):
        os.kill(os.getpid(), signal.SIGKILL)
    return who(environ, start_response, asked)


def gate(environ, start_response, asked):
    """Responds once the file `name` is there."""
    while not os.path.exists(f"{DIR}/{asked['name']}"):
        time.sleep(0.005)
    return who(environ, start_response, asked)


class Behind:
    """Is at work behind its response until the file `name` is there."""

    def __init__(self, name):
        self.path = f"{DIR}/{name}"

    def __iter__(self):
        yield str(os.getpid()).encode()

    def close(self):
        while not os.path.exists(self.path):
            time.sleep(0.005)
        print("done behind the response", flush=True)


def behind(environ, start_response, asked):
    start_response("200 OK", [])
    return Behind(asked["name"])


def meet(environ, start_response, asked):
    """Responds when so many are here at once."""
    global met
    with meeting:
        met += 1
        meeting.notify_all()
        if not meeting.wait_for(lambda: met >= int(asked["n"]), 20):
            raise TimeoutError("nobody came")
    return who(environ, start_response, asked)


def grow(environ, start_response, asked):
    """Takes memory, and does not give it back."""
    held = [bytearray(os.urandom(1 << 20)) for _ in range(int(asked["mib"]))]
    time.sleep(600)
    return held


kept = []


def take(environ, start_response, asked):
    """Takes memory and keeps it, computes, and waits."""
    kept.append(b"x" * (int(asked["mib"]) << 20))
    end = time.thread_time() + float(asked["cpu"])
    while time.thread_time() < end:
        sum(range(1_000))
    time.sleep(float(asked["wait"]))
    return text(start_response, "taken")


def digest(environ, start_response, asked):
    body = environ["wsgi.input"].read()
    return text(start_response, f"{len(body)} {hashlib.sha256(body).hexdigest()}")


def work(environ, start_response, asked):
    time.sleep(float(asked.get("ms", 1)) / 1000)
    return text(start_response, asked["id"])


HANDLERS = {
    "/who": who,
    "/hang": hang,
    "/hold": hold_the_lock,
    "/die": die,
    "/gate": gate,
    "/behind": behind,
    "/meet": meet,
    "/grow": grow,
    "/take": take,
    "/digest": digest,
    "/work": work,
}
