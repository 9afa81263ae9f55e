"""A thread that Python does not know of, as those of a library, which ends before a fork, as OpenBLAS's do; or, if `STAYS` is set, does not."""

import _thread
import os
import time

left = []


def library():
    while not left:
        time.sleep(0.01)


def end():
    if "STAYS" not in os.environ:
        left.append(True)
        while len(os.listdir("/proc/self/task")) > 1:
            time.sleep(0.01)


_thread.start_new_thread(library, ())
os.register_at_fork(before=end)


def application(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"served"]
