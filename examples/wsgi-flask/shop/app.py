"""The routes."""

import hashlib
import os
import time

from flask import Flask, Response, jsonify, redirect, request, stream_with_context, url_for

from shop.counting import count

PRODUCTS = [{"id": 1, "name": "kettle"}, {"id": 2, "name": "teapot"}, {"id": 3, "name": "cup"}]

SHOWN = (
    "SERVER_PROTOCOL",
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "wsgi.url_scheme",
)


def create_app():
    """The application; a factory, so that it can be named `shop.app:create_app()` too."""
    app = Flask(__name__)
    for path, view, methods in (
        ("/", index, ["GET"]),
        ("/products", products, ["GET"]),
        ("/order", order, ["POST"]),
        ("/upload", upload, ["POST", "PUT"]),
        ("/stream", stream, ["GET"]),
        ("/events", events, ["GET"]),
        ("/cookies", cookies, ["GET"]),
        ("/error", error, ["GET"]),
        ("/error-late", error_late, ["GET"]),
        ("/slow", slow, ["GET"]),
        ("/count", counted, ["GET", "POST"]),
        ("/big", big, ["GET"]),
        ("/moved", moved, ["GET"]),
        ("/early", early, ["POST", "PUT"]),
        ("/whoami", whoami, ["GET"]),
        ("/pong", pong, ["GET"]),
    ):
        app.add_url_rule(path, view.__name__, view, methods=methods)
    return app


def index():
    """The front page."""
    return "<!doctype html><title>Shop</title><h1>Shop</h1><p>Warm.</p>\n"


def products():
    """JSON."""
    return jsonify(PRODUCTS)


def order():
    """A form, as URL-encoded fields or multipart: echoes what was ordered."""
    return jsonify({name: request.form.getlist(name) for name in request.form})


def upload():
    """Any body: size and digest of each uploaded file, or of the body itself. Never held in memory as a whole."""
    if request.mimetype == "multipart/form-data":
        files = {name: dict(digest(file.stream), filename=file.filename) for name, file in request.files.items()}
        return jsonify({"files": files, "fields": request.form.to_dict(flat=False)})
    return jsonify(digest(request.stream))


def digest(stream):
    """The size and SHA-256 of a stream."""
    size, sha = 0, hashlib.sha256()
    while part := stream.read(65_536):
        size += len(part)
        sha.update(part)
    return {"size": size, "sha256": sha.hexdigest()}


def stream():
    """`?parts=N` lines, `?pause=SECONDS` apart, without a known length."""
    parts, pause = request.args.get("parts", 5, int), request.args.get("pause", 0.0, float)

    @stream_with_context
    def lines():
        for number in range(parts):
            if number and pause:
                time.sleep(pause)
            yield f"line {number}\n"

    return Response(lines(), mimetype="text/plain")


def events():
    """Server-sent events, `?count=N` of them, `?pause=SECONDS` apart."""
    events, pause = request.args.get("count", 3, int), request.args.get("pause", 0.1, float)

    def lines():
        for number in range(events):
            if number:
                time.sleep(pause)
            yield f"id: {number}\ndata: tick {number}\n\n"

    return Response(lines(), mimetype="text/event-stream", headers={"Cache-Control": "no-cache"})


def cookies():
    """Sets several cookies, and returns those it received."""
    response = jsonify(request.cookies.to_dict())
    response.set_cookie("basket", "42", httponly=True, samesite="Lax")
    response.set_cookie("theme", "dark", max_age=3600)
    response.set_cookie("seen", "yes")
    return response


def error():
    """An exception before any part of the response is sent."""
    raise RuntimeError("an error on demand")


def error_late():
    """An exception in the middle of the response; the client must notice that it is incomplete."""

    def lines():
        yield "this much came\n"
        raise RuntimeError("an error on demand, late")

    return Response(lines(), mimetype="text/plain")


def slow():
    """Sleeps `?seconds=S` before it responds."""
    seconds = request.args.get("seconds", 1.0, float)
    time.sleep(seconds)
    return f"slept {seconds} s\n", {"Content-Type": "text/plain"}


def counted():
    """Records `X-Request-Id`, so that a test can tell whether a request arrived once, twice or not at all."""
    request_id = request.headers.get("X-Request-Id", "")
    count(request_id)
    return f"{request_id}\n", {"Content-Type": "text/plain"}


def big():
    """`?bytes=N` bytes in one piece."""
    size = request.args.get("bytes", 1_048_576, int)
    pattern = b"0123456789abcdef" * 64
    return Response((pattern * (size // len(pattern) + 1))[:size], mimetype="application/octet-stream")


def moved():
    """A redirect to the front page."""
    return redirect(url_for("index"), code=303)


def early():
    """Responds without reading the body: 413, like an application with its own limit."""
    return "too much for this shop\n", 413, {"Content-Type": "text/plain"}


def whoami():
    """What the application knows about the request and about itself."""
    environ = request.environ
    shown = {name: environ.get(name) for name in SHOWN}
    return jsonify(pid=os.getpid(), headers=dict(request.headers), environ=shown)


def pong():
    """Many headers and four bytes: the response that once took sixteen packets."""
    return "pong", {f"X-Field-{number}": "small" for number in range(1, 13)}
