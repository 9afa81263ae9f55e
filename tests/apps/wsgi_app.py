"""The test application for WSGI: each path is one way in which an application responds. Standard library only."""

import hashlib
import json
import os
import signal
import sys
import time

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
SILENCE = 0.03


def application(environ, start_response):
    path = environ["PATH_INFO"]
    handler = echo if "/any/" in path else HANDLERS.get(path)
    if handler is None:
        start_response("404 Not Found", [("Content-Length", "0"), ("X-App", "wsgi")])
        return []
    return handler(environ, start_response)


def body_of(environ):
    return environ["wsgi.input"].read()


def query(environ):
    from urllib.parse import parse_qsl

    return dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))


def pong(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
    return [b"pong"]


def listed(environ, start_response):
    """A list of one block and no Content-Length: the adapter knows the length."""
    body_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"pong"]


def empty(environ, start_response):
    body_of(environ)
    start_response("200 OK", [])
    return []


def short(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"po", b"ng"])


def long(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"x" * 4096] * 50)


def silent(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])

    def blocks():
        yield b"first,"
        time.sleep(SILENCE)
        yield b"second"

    return blocks()


def no_content(environ, start_response):
    body_of(environ)
    start_response("204 No Content", [])
    return []


def no_content_with_length(environ, start_response):
    body_of(environ)
    start_response("204 No Content", [("Content-Length", "0"), ("Content-Type", "text/plain")])
    return []


def no_content_with_body(environ, start_response):
    body_of(environ)
    start_response("204 No Content", [("Content-Length", "4")])
    return [b"body"]


def not_modified(environ, start_response):
    body_of(environ)
    start_response("304 Not Modified", [("ETag", '"1"')])
    return []


def not_modified_with_length(environ, start_response):
    body_of(environ)
    start_response("304 Not Modified", [("ETag", '"1"'), ("Content-Length", "0")])
    return []


def reset_content(environ, start_response):
    body_of(environ)
    start_response("205 Reset Content", [])
    return []


def reset_content_with_body(environ, start_response):
    body_of(environ)
    start_response("205 Reset Content", [("Content-Length", "4")])
    return [b"body"]


def hop_by_hop(environ, start_response):
    body_of(environ)
    start_response(
        "200 OK",
        [
            ("Connection", "keep-alive, x-private"),
            ("X-Private", "1"),
            ("Keep-Alive", "timeout=1, max=1"),
            ("Transfer-Encoding", "identity"),
            ("Proxy-Connection", "keep-alive"),
            ("X-Kept", "1"),
            ("Content-Length", "4"),
        ],
    )
    return [b"pong"]


def blanks(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("X-Blanks", " \t in blanks\t "), ("Content-Length", "4")])
    return [b"pong"]


def chunked_itself(environ, start_response):
    """An application that says it chunks (and does not): what it says never reaches the client."""
    body_of(environ)
    start_response("200 OK", [("Transfer-Encoding", "chunked")])
    return [b"pong"]


def app_closes(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Connection", "Close"), ("Content-Length", "4")])
    return [b"pong"]


def dated(environ, start_response):
    body_of(environ)
    start_response("200 OK", [("Date", DATE), ("Server", "app/1"), ("Content-Length", "4")])
    return [b"pong"]


def unread(environ, start_response):
    """Responds without a look at the body."""
    start_response("403 Forbidden", [("Content-Length", "2")])
    return [b"no"]


def echo(environ, start_response):
    body = body_of(environ)
    seen = {key: value for key, value in environ.items() if isinstance(value, str)}
    seen["body"] = body.decode("latin-1")
    text = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


def digest(environ, start_response):
    """The body's length and SHA-256, read in pieces."""
    stream, total, sha = environ["wsgi.input"], 0, hashlib.sha256()
    while block := stream.read(65536):
        total += len(block)
        sha.update(block)
    text = json.dumps({"length": total, "sha256": sha.hexdigest()}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


def count(environ, start_response):
    """Appends the request's id to the count file, then works for a moment, then responds with the worker's pid."""
    asked = query(environ)
    body_of(environ)
    append(f"{asked['id']}\n")
    time.sleep(float(asked.get("ms", 0)) / 1000)
    text = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


def append(line):
    handle = os.open(os.environ["COUNT_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def sleep(environ, start_response):
    asked = query(environ)
    body_of(environ)
    time.sleep(float(asked["ms"]) / 1000)
    return listed(environ, start_response)


def big(environ, start_response):
    length = int(query(environ)["bytes"])
    body_of(environ)
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(length))])

    def blocks():
        left = length
        while left:
            block = min(left, 65536)
            yield b"0123456789abcdef" * (block // 16) + b"x" * (block % 16)
            left -= block

    return blocks()


def fifteen(environ, start_response):
    """15 fields and pong: Date is the server's."""
    fields = [("Content-Type", "text/plain"), ("Content-Length", "4")]
    fields += [(f"X-Field-{number}", "value-" + str(number)) for number in range(1, 13)]
    start_response("200 OK", fields)
    return [b"pong"]


def in_two(environ, start_response):
    """A length, and the body in two parts."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "4")])
    return iter([b"po", b"ng"])


def cookies(environ, start_response):
    fields = [("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2; Expires=Wed, 09 Jun 2031 10:18:14 GMT"), ("Content-Length", "0")]
    start_response("200 OK", fields)
    return []


def raises(environ, start_response):
    raise ValueError("before the response")


def raises_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])

    length = int(query(environ).get("bytes", 10))

    def blocks():
        yield b"x" * length
        raise ValueError("after the response began")

    return blocks()


def too_short(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return [b"short"]


def too_long(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"pong and more"]


def die(environ, start_response):
    """Dies before it responds."""
    asked = query(environ)
    if "id" in asked:
        append(f"{asked['id']} {os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def die_late(environ, start_response):
    """Dies with half of a response out."""
    start_response("200 OK", [("Content-Length", "100000")])

    def blocks():
        yield b"x" * 50000
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
        yield b""

    return blocks()


def die_once(environ, start_response):
    """The first request of all kills its worker; the count file tells which one that is."""
    asked = query(environ)
    append(f"{asked['id']} {os.getpid()}\n")
    with open(os.environ["COUNT_FILE"]) as lines:
        first = len(lines.readlines()) == 1
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return listed(environ, start_response)


def who(environ, start_response):
    text = json.dumps({"pid": os.getpid(), "generation": os.environ.get("GENERATION", "")}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


def grandchild(environ, start_response):
    """Starts a process of its own which would outlive the worker."""
    import subprocess

    child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
    text = str(child.pid).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]


def split(environ, start_response):
    """What an attacker would have an application put into its fields; `where` chooses the place."""
    name, value = "X-Split", "a"
    inject = {"crlf": "\r\nSet-Cookie: stolen=1", "lf": "\nX-Stolen: 1", "cr": "\rX-Stolen: 1", "nul": "\0b", "double": "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"}
    asked = query(environ)
    if asked["where"] == "name":
        name += ": 1\r\nX-Stolen"
    else:
        value += inject[asked["where"]]
    start_response("200 OK", [(name, value), ("Content-Length", "4")])
    return [b"pong"]


def reason_split(environ, start_response):
    start_response("200 OK\r\nX-Stolen: 1", [("Content-Length", "4")])
    return [b"pong"]


def unicorn(environ, start_response):
    """The Unicorn convention: status 100 asks for the body, and the application is called again."""
    if environ.get("HTTP_EXPECT", "").lower() == "100-continue":
        start_response("100 Continue", [])
        return []
    text = str(len(body_of(environ))).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]


def explicit(environ, start_response):
    """Decides by the adapter's call, before anything reads."""
    environ["keepwarm.send_continue"]()
    return digest(environ, start_response)


def hints(environ, start_response):
    environ["keepwarm.early_hints"]([("Link", "</style.css>; rel=preload; as=style")])
    return listed(environ, start_response)


def connection(environ, start_response):
    """What the server says about the connection."""
    names = sorted(name for name in environ if name.startswith(("SSL_", "HTTP_X_")))
    lines = ["wsgi.url_scheme=" + environ["wsgi.url_scheme"]] + ["%s=%s" % (name, environ[name]) for name in names]
    text = "\n".join(lines).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


def says(environ, start_response):
    print("a line on stdout", flush=True)
    print("a line on stderr", file=sys.stderr, flush=True)
    return listed(environ, start_response)


HANDLERS = {
    "/pong": pong,
    "/list": listed,
    "/empty": empty,
    "/short": short,
    "/long": long,
    "/silent": silent,
    "/204": no_content,
    "/204-length": no_content_with_length,
    "/204-body": no_content_with_body,
    "/304": not_modified,
    "/304-length": not_modified_with_length,
    "/205": reset_content,
    "/205-body": reset_content_with_body,
    "/hop": hop_by_hop,
    "/blanks": blanks,
    "/chunked-itself": chunked_itself,
    "/close": app_closes,
    "/date": dated,
    "/unread": unread,
    "/echo": echo,
    "/digest": digest,
    "/count": count,
    "/sleep": sleep,
    "/big": big,
    "/fifteen": fifteen,
    "/in-two": in_two,
    "/cookies": cookies,
    "/raise": raises,
    "/raise-late": raises_late,
    "/too-short": too_short,
    "/too-long": too_long,
    "/die": die,
    "/die-late": die_late,
    "/die-once": die_once,
    "/who": who,
    "/grandchild": grandchild,
    "/split": split,
    "/reason-split": reason_split,
    "/unicorn": unicorn,
    "/explicit": explicit,
    "/hints": hints,
    "/says": says,
    "/connection": connection,
}
