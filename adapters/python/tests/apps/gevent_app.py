"""An application whose threads are greenlets."""

from gevent import monkey

monkey.patch_all()

import time  # noqa: E402


def application(environ, start_response):
    time.sleep(float(environ["QUERY_STRING"] or 0))
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"green"]
