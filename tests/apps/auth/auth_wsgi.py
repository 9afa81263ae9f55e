"""An authorization service for WSGI; auth_asgi.py, auth.ru, auth.php, auth.js and web/index.php are the same."""

import os

SEEN = ["X-Original-Method", "X-Original-URI", "X-Original-URL", "X-Forwarded-Method", "X-Forwarded-Uri",
        "X-Forwarded-For", "Content-Length", "Content-Type", "Range", "If-None-Match", "Remote-User"]


def decide(method, field):
    """Status, fields and body for a request with these fields."""
    seen = "|".join([method] + [field(name) for name in SEEN])
    credentials = field("Authorization")
    if credentials == "Bearer die":
        os._exit(3)
    if credentials == "Bearer good":
        return 200, [("Remote-User", "jo"), ("X-Auth-Groups", "staff"), ("X-Auth-Seen", seen)], "welcome"
    if credentials == "Bearer silent":
        return 200, [], ""
    if credentials == "Bearer login":
        return 302, [("Location", "https://login.example/"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], "go"
    return 401, [("WWW-Authenticate", 'Bearer realm="x"'), ("X-Auth-Seen", seen)], "who are you?"


def application(environ, start_response):
    def field(name):
        name = name.upper().replace("-", "_")
        return environ.get(name if name.startswith("CONTENT_") else "HTTP_" + name, "")

    status, fields, body = decide(environ["REQUEST_METHOD"], field)
    start_response(f"{status} Decided", fields + [("Content-Type", "text/plain")])
    return [body.encode()]
