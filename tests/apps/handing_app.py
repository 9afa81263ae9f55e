"""An application that names files as its responses. Standard library only."""

from urllib.parse import parse_qsl


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path != "/hand":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"app " + environ["REQUEST_METHOD"].encode() + b" " + path.encode("latin-1")]
    query = parse_qsl(environ["QUERY_STRING"])
    status = dict(query).get("status", "200 OK")
    fields = [(name, value) for name, value in query if name != "status"]
    start_response(status, [("Content-Length", "7"), *fields])
    return [b"not it!"]
