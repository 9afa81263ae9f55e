"""The WSGI application of the tests: a route for each thing to be tested."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

closed = []


def application(environ, start_response):
    return ROUTES[environ["PATH_INFO"]](environ, start_response)


def text(start_response, body, status="200 OK"):
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def as_json(start_response, thing):
    return text(start_response, json.dumps(thing).encode())


def hello(environ, start_response):
    return text(start_response, b"hello")


def show_environ(environ, start_response):
    shown = {key: value for key, value in environ.items() if isinstance(value, (str, bool, int, tuple))}
    shown["wsgi.input"] = environ["wsgi.input"].read().decode("latin-1")
    return as_json(start_response, shown)


def digest(environ, start_response):
    size, sha = 0, hashlib.sha256()
    while True:
        part = environ["wsgi.input"].read(10_000)
        if not part:
            break
        size += len(part)
        sha.update(part)
    return as_json(start_response, [size, sha.hexdigest()])


def lines(environ, start_response):
    body = environ["wsgi.input"]
    got = [body.readline(), body.readline(3), body.read(2)]
    got += body.readlines(4)
    got += list(body)
    got += [body.read(), body.read(5), body.readline()]
    return as_json(start_response, [one.decode() for one in got])


def read_one(environ, start_response):
    got = environ["wsgi.input"].read(1)
    return text(start_response, got)


def read_error(environ, start_response):
    try:
        environ["wsgi.input"].read()
    except OSError as error:
        print("read failed with", type(error).__name__, file=environ["wsgi.errors"])
        raise
    return text(start_response, b"read it all")


def two_cookies(environ, start_response):
    start_response("200 OK", [("Set-Cookie", "a=1"), ("X-Between", "x"), ("Set-Cookie", "b=2")])
    return [b"ok"]


def large_list(environ, start_response):
    start_response("200 OK", [("X-Field", "1")] if environ["QUERY_STRING"] else [])
    return [b"l" * 100_000]


def no_length(environ, start_response):
    start_response("200 OK", [])
    return [b"one ", b"two"]


def generator(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b""
    yield b"first"
    yield b""
    yield b"second"


def late_start(environ, start_response):
    def body():
        start_response("200 OK", [("X-Late", "yes")])
        yield b"late"

    return body()


class Closing:
    def __init__(self, name, blocks):
        self.name, self.blocks = name, iter(blocks)

    def __iter__(self):
        return self

    def __next__(self):
        block = next(self.blocks)
        if isinstance(block, BaseException):
            raise block
        return block

    def close(self):
        closed.append(self.name)


def closing(environ, start_response):
    start_response("200 OK", [])
    return Closing("closing", [b"a", b"b"])


def closing_head(environ, start_response):
    start_response("200 OK", [("Content-Length", "1000")])
    return Closing("head", [b"a"] * 1000)


def closing_failed(environ, start_response):
    start_response("200 OK", [])
    return Closing("failed", [b"a", ZeroDivisionError("after the first block")])


def was_closed(environ, start_response):
    body = json.dumps(closed).encode()
    closed.clear()
    return text(start_response, body)


def never_ends(environ, start_response):
    start_response("200 OK", [])

    def blocks():
        while True:
            yield b"x" * 1000

    return Closing("never ends", blocks())


def fail_before(environ, start_response):
    raise ZeroDivisionError("before the start")


def fail_late_start(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    raise ZeroDivisionError("started, nothing sent")


def error_page(environ, start_response):
    start_response("200 OK", [("X-First", "1")])
    try:
        raise KeyError("lost")
    except KeyError:
        start_response("500 Sorry", [("X-Second", "2")], sys.exc_info())
    return [b"sorry"]


def error_page_late(environ, start_response):
    write = start_response("200 OK", [])
    write(b"begun")
    try:
        raise KeyError("lost late")
    except KeyError:
        start_response("500 Sorry", [], sys.exc_info())
    return [b"never"]


def error_page_behind_304(environ, start_response):
    start_response("304 Not Modified", [])
    try:
        raise KeyError("lost")
    except KeyError:
        start_response("500 Sorry", [], sys.exc_info())
    return [b"sorry"]


kept = []


def keep(environ, start_response):
    kept[:] = [start_response("200 OK", []), start_response, environ["keepwarm.early_hints"]]
    return [b"kept"]


def use_kept(environ, start_response):
    """What another request got says something, before this one's response and within it."""
    write, start, hints = kept
    seen = []
    # Its thread ends it just after the last byte has left.
    deadline = time.monotonic() + 30
    while not write.__self__.ended and time.monotonic() < deadline:
        time.sleep(0.001)

    def attempt(function, *arguments):
        try:
            function(*arguments)
        except ValueError as error:
            seen.append(str(error))

    def use():
        attempt(write, b"late")
        attempt(start, "500 Late", [("X-Late", "1")])
        attempt(hints, [("Link", "</late>")])

    use()
    start_response("200 OK", [])
    yield b"own "
    use()
    yield json.dumps(seen).encode()


def alarmed(environ, start_response):
    """Under a time limit of the kind that raises, which is over while a large block is being sent."""

    def over(number, frame):
        raise TimeoutError("over")

    before = signal.signal(signal.SIGALRM, over)
    assert signal.getsignal(signal.SIGALRM) is over
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    start_response("200 OK", [])
    try:
        yield b"a" * 50_000_000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def inherited(environ, start_response):
    """What a program has open that this process starts without closing anything."""
    lists = "import os, json; print(json.dumps([os.readlink(one.path) for one in os.scandir('/proc/self/fd') if os.path.lexists(one.path)]))"
    done = subprocess.run([sys.executable, "-c", lists], close_fds=False, capture_output=True, check=True)
    return text(start_response, done.stdout)


def start_twice(environ, start_response):
    start_response("200 OK", [])
    start_response("200 OK", [])
    return [b"never"]


def no_bytes(environ, start_response):
    start_response("200 OK", [])
    return {
        "list": ["text"], "two": ["te", "xt"], "large": ["x" * 100_000], "number": [5],
        "stream": iter(["text"]), "late": iter([b"begun", "text"]),
    }[environ["QUERY_STRING"]]  # fmt: skip


def no_start(environ, start_response):
    return [b"never"]


def write(environ, start_response):
    put = start_response("200 OK", [("X-Way", "write")])
    put(b"one ")
    put(b"")
    put(b"two ")
    return [b"three"]


def too_short(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return [b"abc"]


def too_short_stream(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    yield b"abc"
    yield b"def"


def too_long(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"abcdef"]


def too_long_stream(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    yield b"ab"
    yield b"cd"
    yield b"ef"


def after_the_end(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    yield b"ab"
    closed.append("ran to its end")


def bad_field(environ, start_response):
    bad = {"n": ("X-Bad", "a\nb"), "z": ("X-Bad", "a\0b"), "t": ("X Bad", "a"), "b": ("X-Bad", b"bytes"), "l": ("Content-Length", "1x")}
    start_response("200 OK", [bad[environ["QUERY_STRING"]]])
    return [b"never"]


def bad_status(environ, start_response):
    start_response(environ["QUERY_STRING"].replace("+", " "), [])
    return [b"never"]


def hop_by_hop(environ, start_response):
    start_response("200 OK", [("Connection", "close"), ("Transfer-Encoding", "chunked"), ("Keep-Alive", "timeout=5"), ("X-Kept", "1")])
    return [b"ok"]


def with_status(environ, start_response):
    start_response(environ["QUERY_STRING"] + " Status", [("X-Status", "1")])
    return [b"a body"]


def big(environ, start_response):
    size = int(environ["QUERY_STRING"])
    body = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    return text(start_response, body)


def big_blocks(environ, start_response):
    start_response("200 OK", [])
    for _ in range(int(environ["QUERY_STRING"])):
        yield b"b" * 100_000


def file(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/x-python")])
    return environ["wsgi.file_wrapper"](open(__file__, "rb"))


def buffered_file(environ, start_response):
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"x" * 20_000), 8_192)


def file_blocks(environ, start_response):
    with tempfile.TemporaryFile() as regular:
        regular.write(b"x" * 200_000)
        regular.seek(0)
        reader, writer = os.pipe()
        os.write(writer, b"y" * 100)
        os.close(writer)
        with open(reader, "rb") as pipe:
            wrap = environ["wsgi.file_wrapper"]
            sizes = [[len(block) for block in wrap(file, size)] for file, size in ((regular, 4_096), (pipe, 10))]
    return as_json(start_response, sizes)


def latin(environ, start_response):
    start_response("200 OK", [("X-Name", "caf\xe9")])
    return [environ["PATH_INFO"].encode("latin-1")]


def hints(environ, start_response):
    environ["keepwarm.early_hints"]([("Link", "</a.css>; rel=preload"), ("Link", "</b.js>; rel=preload")])
    put = start_response("200 OK", [])
    put(b"begun")
    environ["keepwarm.early_hints"]([("Link", "</late>")])
    return []


def send_continue(environ, start_response):
    environ["keepwarm.send_continue"]()
    environ["keepwarm.send_continue"]()
    return text(start_response, environ["wsgi.input"].read())


def unicorn(environ, start_response):
    if environ.get("HTTP_EXPECT"):
        start_response("100 Continue", [])
        return Closing("unicorn", [])
    return text(start_response, b"read " + environ["wsgi.input"].read())


def forever_100(environ, start_response):
    start_response("100 Continue", [])
    return []


def prints(environ, start_response):
    print("printed to stdout")
    print("printed to stderr", file=sys.stderr)
    environ["wsgi.errors"].write("written to wsgi.errors\n")
    return text(start_response, b"ok")


def fork(environ, start_response):
    child = os.fork()
    if child == 0:
        return text(start_response, b"written by the child, which must not be seen")
    os.waitpid(child, 0)
    return text(start_response, b"by the parent")


def grandchild(environ, start_response):
    number = environ["QUERY_STRING"]
    code = f"import os; print(os.path.exists('/proc/self/fd/{number}'), 'KEEPWARM_FD' in os.environ)"
    return text(start_response, subprocess.check_output([sys.executable, "-c", code], close_fds=False))


def leave(environ, start_response):
    sys.exit(7)


def leave_late(environ, start_response):
    start_response("200 OK", [])
    yield b"what was made before"
    sys.exit(7)


def die(environ, start_response):
    os._exit(9)


def memory(environ, start_response):
    raise MemoryError("no more")


def recursion(environ, start_response):
    return recursion(environ, start_response)


def interrupt(environ, start_response):
    raise KeyboardInterrupt


def leak(environ, start_response):
    os.chdir("/")
    os.umask(0o077)
    return text(start_response, b"leaked")


def place(environ, start_response):
    mask = os.umask(0)
    os.umask(mask)
    return as_json(start_response, [os.getcwd(), mask])


def context(environ, start_response):
    import decimal

    before = decimal.getcontext().prec
    decimal.getcontext().prec = 5
    return as_json(start_response, before)


def wait_for_line(environ, start_response):
    """Says on a FIFO that it is here, and waits for a line on another."""
    with open(os.environ["TEST_FIFO_OUT"], "w") as out:
        out.write("here\n")
    with open(os.environ["TEST_FIFO_IN"], "rb", buffering=0) as line:  # no more than a line: others may wait, too
        line.readline()
    return text(start_response, b"went on")


class Late:
    """Has something to do behind its response, for so many milliseconds."""

    def __init__(self, milliseconds):
        self.seconds = milliseconds / 1000

    def __iter__(self):
        yield b"late"

    def close(self):
        time.sleep(self.seconds)


def late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return Late(int(environ["QUERY_STRING"]))


ROUTES = {
    "/": hello, "/environ": show_environ, "/digest": digest, "/lines": lines, "/read-one": read_one, "/read-error": read_error,
    "/two-cookies": two_cookies, "/no-length": no_length, "/large-list": large_list, "/generator": generator, "/late-start": late_start,
    "/closing": closing, "/closing-head": closing_head, "/closing-failed": closing_failed, "/was-closed": was_closed,
    "/never-ends": never_ends, "/fail-before": fail_before, "/fail-late-start": fail_late_start, "/error-page": error_page,
    "/error-page-late": error_page_late, "/start-twice": start_twice, "/no-start": no_start, "/no-bytes": no_bytes, "/write": write,
    "/too-short": too_short, "/too-short-stream": too_short_stream, "/too-long": too_long, "/too-long-stream": too_long_stream,
    "/after-the-end": after_the_end, "/bad-field": bad_field, "/bad-status": bad_status, "/hop-by-hop": hop_by_hop,
    "/status": with_status, "/big": big, "/big-blocks": big_blocks, "/file": file, "/buffered-file": buffered_file,
    "/latin/\xe9": latin, "/hints": hints, "/continue": send_continue, "/unicorn": unicorn, "/forever-100": forever_100,
    "/prints": prints, "/fork": fork, "/grandchild": grandchild, "/leave": leave, "/leave-late": leave_late, "/die": die,
    "/memory": memory, "/recursion": recursion, "/interrupt": interrupt, "/leak": leak, "/place": place, "/context": context,
    "/wait": wait_for_line, "/late": late, "/error-page-behind-304": error_page_behind_304, "/keep": keep, "/use-kept": use_kept,
    "/alarmed": alarmed, "/inherited": inherited, "/file-blocks": file_blocks,
}  # fmt: skip
