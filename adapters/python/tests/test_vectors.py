"""The vectors of spec/vectors, which every implementation of the wire must agree on (see README.md there)."""

import asyncio
import json
import pathlib
import struct
import unittest
import unittest.mock

from keepwarm import asgi_connection, log, wire
from keepwarm.asgi_websocket import WebSocketStream
from keepwarm.errors import Fault

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors"
REQUEST_FLAGS = ("END", "EXPECT", "REPEATS", "EARLY_HINTS", "WEBSOCKET", "TRAILERS", "USER")
FIXED = (
    "method", "protocol", "scheme", "path", "raw_path", "query", "script_name", "server_name", "server_port",
    "client_address", "client_port",
)  # fmt: skip


def load(name):
    return json.loads((VECTORS / name).read_text())


def raw(case):
    """The bytes of a case."""
    pad = case.get("pad") or {"hex": "", "times": 0}
    return bytes.fromhex(case["hex"]) + bytes.fromhex(pad["hex"]) * pad["times"]


def body_of(frame):
    body = frame.get("body", "")
    if isinstance(body, dict):
        return body["repeat"].encode("latin-1") * body["times"]
    return body.encode("latin-1")


def text(one):
    return one.decode("latin-1")


def described(kind, flags, stream, payload):
    """A frame from Keepwarm in the vectors' form, by the adapter's own decoders."""
    names = {number: name for name, number in vars(wire).items() if name in TYPE_NAMES}
    frame = {"type": names[kind], "stream": stream}
    if kind == wire.WELCOME:
        least, most, stream_credit, connection_credit, about = wire.decode_welcome(payload)
        frame.update(version_min=least, version_max=most, stream_credit=stream_credit, connection_credit=connection_credit)
        frame["about"] = [[text(name), text(value)] for name, value in about]
    elif kind == wire.REQUEST:
        length, strings, body = wire.request_parts(payload, 0, len(payload), flags)
        frame["flags"] = [name for place, name in enumerate(REQUEST_FLAGS) if flags >> place & 1]
        frame["content_length"] = None if length == wire.UNKNOWN_LENGTH else length
        if flags & wire.USER:
            *strings, auth_type, user = strings
            frame.update(user=text(user), auth_type=text(auth_type))
        frame.update(zip(FIXED, map(text, strings)))
        frame["fields"] = [[text(name), text(value)] for name, value in zip(strings[11::2], strings[12::2])]
        frame["body"] = body
    elif kind in (wire.DATA, wire.TEXT, wire.BINARY):
        frame.update(flags=["END"] if flags else [], body=payload)
    elif kind == wire.TRAILERS:
        frame["fields"] = [[text(name), text(value)] for name, value in wire.decode_trailers(payload)]
    elif kind == wire.CREDIT:
        frame["amount"] = wire.decode_credit(payload)
    elif kind in (wire.RESET, wire.CLOSE):
        frame["code"], frame["reason"] = wire.decode_reason(payload)
    elif kind == wire.LEAKS:
        frame["flags"] = ["END"] if flags else []
    elif kind == wire.PING:
        frame["payload"] = payload.hex()
    return frame


TYPE_NAMES = {"WELCOME", "REQUEST", "DATA", "TRAILERS", "CREDIT", "RESET", "HALF_CLOSE", "TEXT", "BINARY", "CLOSE", "PING", "DRAIN", "LEAKS"}


def expected(frame):
    """The vectors' form with its body as bytes."""
    return {**frame, "body": body_of(frame)} if "body" in frame else frame


def encoded(frame):
    """The bytes of a worker's frame, by the adapter's own encoders."""
    kind, stream = frame["type"], frame["stream"]
    strings = [part.encode("latin-1") for pair in frame.get("fields", ()) for part in pair]
    block = (len(strings), b"\0".join(strings))
    flags = frame.get("flags", ())
    if kind == "HELLO":
        about = [(name.encode("latin-1").decode(), value.encode("latin-1").decode()) for name, value in frame["about"]]
        hello = wire.hello(frame["streams"], frame["stream_credit"], frame["connection_credit"], about)
        return hello[:10] + struct.pack(">H", frame["version"]) + hello[12:]  # the adapter speaks one version only
    if kind == "RESPONSE":
        bits = ("END" in flags) * wire.END | ("CLOSE" in flags) * wire.CLOSE_AFTER
        return wire.response(stream, bits, frame["status"], *block, body_of(frame))
    if kind == "INFORM":
        return wire.inform(stream, frame["status"], *block)
    if kind == "TRAILERS":
        return wire.trailers(stream, *block)
    if kind == "CREDIT":
        return wire.credit(stream, frame["amount"])
    if kind == "SAMPLES":
        stacks = [[part.encode("latin-1") for part in pair] for pair in frame["stacks"]]
        return wire.samples(frame["request"], frame["dropped"], stacks)
    if kind == "GROWTH":
        changes = [[part.encode("latin-1") for part in pair] for pair in frame["changes"]]
        return wire.growth(frame["request"], frame["microseconds"], changes)
    if kind == "RESET":
        return wire.reset(stream, frame["code"], frame["reason"])
    if kind == "CLOSE":
        return wire.close(stream, frame["code"], frame["reason"])
    payload = bytes.fromhex(frame["payload"]) if kind == "PONG" else body_of(frame)
    return wire.frame(getattr(wire, kind), wire.END if "END" in flags else 0, stream, payload)


class Frames(unittest.TestCase):
    def test_what_keepwarm_sends_is_decoded(self):
        for case in load("frames.json"):
            if case["from"] != "keepwarm":
                continue
            with self.subTest(case["name"]):
                data = raw(case)
                buffer = bytearray(data)
                self.assertEqual(described(*wire.take_frame(buffer)), expected(case["frame"]))
                self.assertEqual(buffer, b"")
                buffer = bytearray(data + b"behind")
                self.assertEqual(described(*wire.take_frame(buffer)), expected(case["frame"]))
                self.assertEqual(buffer, b"behind")

    def test_every_piece_of_a_frame_asks_for_more(self):
        for case in load("frames.json"):
            if case["from"] != "keepwarm":
                continue
            data = raw(case)
            lengths = range(len(data)) if len(data) < 300 else [*range(150), len(data) // 2, len(data) - 1]
            for length in lengths:
                self.assertIsNone(wire.take_frame(bytearray(data[:length])), (case["name"], length))

    def test_what_the_worker_sends_is_encoded(self):
        for case in load("frames.json"):
            if case["from"] == "worker":
                with self.subTest(case["name"]):
                    self.assertEqual(encoded(case["frame"]), raw(case))

    def test_partials(self):
        for case in load("partials.json"):
            if case["from"] != "keepwarm":
                continue
            with self.subTest(case["name"]):
                buffer, frames = bytearray(raw(case)), []
                try:
                    while True:
                        frame = wire.take_frame(buffer)
                        if frame is None:
                            break
                        frames.append(described(*frame))
                    fault = None
                except Fault as error:
                    fault = error.name
                self.assertEqual(frames, [expected(frame) for frame in case["frames"]])
                self.assertEqual(fault, case.get("fault"))

    def test_faults(self):
        for case in load("faults.json"):
            if case["from"] == "keepwarm":
                with self.subTest(case["name"]), self.assertRaises(Fault) as caught:
                    described(*wire.take_frame(bytearray(raw(case))))
                self.assertEqual(caught.exception.name, case["fault"], case["name"])


class Transport:
    """Takes what the connection writes."""

    def __init__(self):
        self.written = b""
        self.aborted = False

    def write(self, data):
        self.written += data

    def abort(self):
        self.aborted = True


class Script:
    """An application that does what the worker's steps of a transcript say, on each stream."""

    def __init__(self):
        self.steps = {}

    async def __call__(self, scope, receive, send):
        # The streams of a transcript are told apart by the order in which they are opened.
        steps = self.queue(len(self.started) + 1)
        self.started.append(scope["type"])
        socket = scope["type"] == "websocket"
        if socket:
            await receive()
        while True:
            step = await steps.get()
            if step is None:
                raise asyncio.CancelledError
            await step(send, receive)

    started = None

    def queue(self, stream):
        return self.steps.setdefault(stream, asyncio.Queue())


class Sessions(unittest.TestCase):
    """The transcripts, with a real connection on a transport that only remembers what is written."""

    # What an application cannot do here: the worker responds to these by itself, at once, so that the stream is over (and
    # what comes for it ignored) where the transcript has it still open.
    RESPONDED_AT_ONCE = {"Keepwarm: TEXT after CLOSE"}

    def test_sessions(self):
        count = 0
        patch = unittest.mock.patch.object(log, "exception")  # the transcripts' failures are not worth a traceback each
        patch.start()
        self.addCleanup(patch.stop)
        for case in load("sessions.json"):
            last = case["steps"][-1]
            if (last.get("fault") and last["from"] == "worker") or case["name"] in self.RESPONDED_AT_ONCE:
                continue  # what a worker of ours never sends
            count += 1
            with self.subTest(case["name"]):
                asyncio.run(self.play(case["steps"]))
        self.assertGreater(count, 40)

    async def play(self, steps):
        script = Script()
        script.started = []
        connection = asgi_connection.Asyncio(asyncio.get_running_loop(), script, WebSocketStream)
        transport = Transport()
        connection.connection_made(transport)
        faults = []
        connection.fail = lambda fault: faults.append(fault.name)  # the name, instead of a line in the log
        opened = {}
        for step in steps:
            frame = step["frame"]
            if step["from"] == "keepwarm":
                if frame["type"] == "REQUEST" and frame["stream"] not in opened:
                    opened[frame["stream"]] = len(opened) + 1
                connection.data_received(raw(step))
                await settle()
                self.assertEqual(faults, [step["fault"]] if step.get("fault") else [])
            elif frame["type"] == "HELLO":
                self.greet(connection, frame)
            else:
                self.act(script, opened, frame, steps)
                if step.get("dropped") and "END" in frame.get("flags", ()):
                    script.queue(opened[frame["stream"]]).put_nowait(None)  # it could not say it, and gives up
                await settle()
        self.check_growth(transport.written, steps)
        for number in list(opened.values()):
            script.queue(number).put_nowait(None)
        await settle()

    def check_growth(self, written, steps):
        """The application keeps what it wants: only for what there is GROWTH is in the transcript. The last may have crossed the END of LEAKS, and does not here."""
        expected = [step["frame"]["request"] for step in steps if step["frame"]["type"] == "GROWTH"]
        sent, start = [], 0
        while start < len(written):
            length, kind = struct.unpack_from(">IB", written, start)
            if kind == wire.GROWTH:
                sent += struct.unpack_from(">I", written, start + 10)
            start += 10 + length
        self.assertIn(sent, (expected, expected[:-1]))

    def greet(self, connection, frame):
        connection.limit = frame["streams"]
        connection.stream_credit = frame["stream_credit"]
        connection.allowance = type(connection.allowance)(frame["connection_credit"])
        connection.say_hello([])

    def act(self, script, opened, frame, steps):
        """Has the application do what leads to the worker's frame."""
        kind, stream = frame["type"], frame["stream"]
        if kind == "GROWTH" and frame["request"]:
            script.queue(opened[frame["request"]]).put_nowait(None)  # it comes when the application has returned
        if stream == 0 or kind == "PONG":
            return  # the adapter's own doing; DRAIN is not for the application
        socket = any(
            step["frame"]["type"] == "REQUEST" and step["frame"]["stream"] == stream and "WEBSOCKET" in step["frame"]["flags"]
            for step in steps
        )
        trailers = any(step["frame"]["type"] == "TRAILERS" and step["from"] == "worker" for step in steps)
        script.queue(opened[stream]).put_nowait(lambda send, receive: perform(frame, send, receive, socket, trailers))


class Refusal(Exception):
    """What the application raises where the transcript has a RESET."""


async def perform(frame, send, receive, socket, trailers):
    kind, more = frame["type"], "END" not in frame.get("flags", ())
    prefix = "websocket.http.response." if socket else "http.response."
    headers = [tuple(part.encode("latin-1") for part in pair) for pair in frame.get("fields", ())]
    headers = [pair for pair in headers if pair[0].lower() != b"content-length"]  # bodies are placeholders
    body = {"type": prefix + "body", "body": body_of(frame), "more_body": more}
    if kind == "RESPONSE" and frame["status"] == 101:
        await quietly(send({"type": "websocket.accept", "headers": headers}))
    elif kind == "RESPONSE":
        start = {"type": prefix + "start", "status": frame["status"], "headers": headers, "trailers": trailers}
        await quietly(send(start))
        await quietly(send(body))
    elif kind == "DATA":
        await quietly(send(body))
    elif kind == "TRAILERS":
        await quietly(send({"type": prefix + "body"}))
        await quietly(send({"type": prefix + "trailers", "headers": headers}))
    elif kind == "INFORM":
        await quietly(send({"type": prefix + "early_hint", "links": [value for _, value in headers]}))
    elif kind in ("WANT", "CREDIT"):
        await quietly(receive())
    elif kind == "TEXT":
        await quietly(send({"type": "websocket.send", "text": body_of(frame).decode("utf-8", "replace")}))
    elif kind == "BINARY":
        await quietly(send({"type": "websocket.send", "bytes": body_of(frame)}))
    elif kind == "CLOSE":
        await quietly(send({"type": "websocket.close", "code": frame["code"], "reason": frame["reason"]}))
    elif kind == "RESET":
        raise Refusal


async def quietly(call):
    """An application that does not mind what its messages lead to; the transcript says what Keepwarm must make of it."""
    try:
        await asyncio.wait_for(call, 0.05)
    except (OSError, RuntimeError, asyncio.TimeoutError):
        pass


async def settle():
    """Lets everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


if __name__ == "__main__":
    unittest.main()
