"""As gevent and eventlet leave an application: no `select.poll`, and something else where threads begin."""

import _thread
import select
import threading

del select.poll
_original = _thread.start_new_thread
_thread.start_new_thread = lambda *arguments: _original(*arguments)


def application(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [" ".join(sorted(thread.name for thread in threading.enumerate())).encode()]
