"""An application with signal handlers of its own: one that raises, as time limits do, and one that ends the process."""

import os
import signal
import sys


def over(number, frame):
    raise RuntimeError("interrupted")


signal.signal(signal.SIGUSR1, over)
signal.signal(signal.SIGUSR2, lambda number, frame: sys.exit(7))


def app(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/own":
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.pause()
        except RuntimeError as error:
            return [f"rescued {error}".encode()]
    if environ["PATH_INFO"] == "/parts":
        return (b"x" * 2_000_000 for _ in range(2))
    if environ["PATH_INFO"] == "/body":
        try:
            return [b"%d" % len(environ["wsgi.input"].read())]
        except RuntimeError as error:
            return [f"rescued {error}".encode()]
    return [b"x" * 2_000_000 if environ["PATH_INFO"] == "/large" else b"after"]
