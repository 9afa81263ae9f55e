"""WebSockets of the ASGI worker, seen from the wire (spec/wire.md §7)."""

import asyncio
import json
import struct
import unittest

from keepwarm.asgi_connection import Asyncio
from keepwarm.asgi_websocket import WebSocketStream
from tests.driver import END, PATIENCE, WEBSOCKET, Worker, block, pack, pairs, unblock
from tests.test_credit import REQUEST, WELCOME


def close(code, reason=""):
    return struct.pack(">H", code) + reason.encode()


class WebSockets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worker = Worker("asgi_app")
        cls.addClassCleanup(cls.worker.stop)

    def setUp(self):
        self.worker.get("/close-gate")
        self.worker.get("/was-seen")

    def seen(self):
        """What the application noted; it may need some turns of its loop to come to it."""
        for _ in range(1_000):
            noted = json.loads(self.worker.get("/was-seen").body)
            if noted:
                return noted
        return []

    def ask(self, path, *fields, **more):
        return self.worker.request(path, flags=END | WEBSOCKET, fields=[("upgrade", "websocket"), *fields], **more)

    def open(self, path, *fields, **more):
        """A stream on which the application has accepted."""
        stream = self.ask(path, *fields, **more)
        response = self.worker.take(stream, lambda response: response.status)
        self.assertEqual((response.status, response.frames[0].flags), (101, 0))
        return stream

    def frame(self, stream, number):
        """The frame of that number on a stream, the 101 being the first; credit does not count."""

        def said(response):
            return [frame for frame in response.frames if frame.name != "CREDIT"]

        return said(self.worker.take(stream, lambda response: len(said(response)) > number))[number]

    def say(self, stream, text, end=True):
        data = text if isinstance(text, bytes) else text.encode()
        self.worker.send(pack("BINARY" if isinstance(text, bytes) else "TEXT", stream, data, END if end else 0))

    def test_accept_with_a_subprotocol_and_fields(self):
        stream = self.open("/echo", ("sec-websocket-protocol", "chat, other"))
        self.assertEqual(self.worker.responses[stream].fields, [("x-ws", "1"), ("sec-websocket-protocol", "chat")])

    def test_the_scope(self):
        stream = self.open("/echo", ("sec-websocket-protocol", "a,b"), ("sec-websocket-protocol", "c"), scheme="https")
        self.say(stream, "scope")
        scope = json.loads(self.frame(stream, 1).payload)
        self.assertEqual(scope, {"type": "websocket", "scheme": "wss", "path": "/echo", "subprotocols": ["a", "b", "c"]})

    def test_the_scope_has_the_fields_of_an_opening(self):
        for given in ([], [("upgrade", "WebSocket")]):  # Keepwarm sends none; a worker's other server may
            stream = self.worker.request("/echo", flags=END | WEBSOCKET, fields=[("x-a", "1"), *given])
            self.worker.take(stream, lambda response: response.status)
            self.say(stream, "headers")
            shown = json.loads(self.frame(stream, 1).payload)
            expected = [["x-a", "1"], ["upgrade", "WebSocket"], ["connection", "Upgrade"]]
            self.assertEqual(shown, expected if given else [["x-a", "1"], ["connection", "Upgrade"], ["upgrade", "websocket"]])

    def test_text_and_bytes_and_empty_messages(self):
        stream = self.open("/echo")
        for number, message in enumerate(("caf\xe9", b"\0\xff", "", b""), 1):
            self.say(stream, message)
            frame = self.frame(stream, number)
            data = message if isinstance(message, bytes) else message.encode()
            self.assertEqual((frame.name, frame.payload, frame.end), ("BINARY" if isinstance(message, bytes) else "TEXT", data, True))

    def test_messages_in_several_frames(self):
        stream = self.open("/echo")
        encoded = "\u20ac" * 30_000  # three bytes each, so that a frame's border falls inside one
        data = encoded.encode()
        for start in range(0, len(data), 40_000):
            self.worker.send(pack("TEXT", stream, data[start : start + 40_000], END if start + 40_000 >= len(data) else 0))
        first = self.frame(stream, 1)
        self.worker.credit(stream, len(data))
        second = self.frame(stream, 2)
        self.assertEqual((first.payload + second.payload, first.end, second.end), (data, False, True))

    def test_a_message_larger_than_the_credit_comes_through(self):
        stream = self.open("/slow")
        self.worker.get("/open-gate")
        sent, credit, size, number = 0, 131_072, 1_000_000, 1
        while sent < size:
            part = min(credit, 65_536, size - sent)
            if part:
                sent, credit = sent + part, credit - part
                self.worker.send(pack("BINARY", stream, b"m" * part, END if sent == size else 0))
                continue
            self.worker.take(stream, lambda response: len(response.frames) > number)
            frame = self.worker.responses[stream].frames[number]
            number += 1
            self.assertEqual(frame.name, "CREDIT")
            credit += struct.unpack(">I", frame.payload)[0]
        response = self.worker.take(stream, lambda response: "TEXT" in response.names)
        self.assertEqual(next(frame.payload for frame in response.frames if frame.name == "TEXT"), b"1000000")

    def test_large_messages_there_and_back(self):
        for kind in ("BINARY", "TEXT"):
            stream = self.open("/echo")
            credit = 131_072
            for size in (8 << 20, (1 << 20) + 1):
                credit = self.echo(stream, kind, size, credit)
            self.worker.send(pack("CLOSE", stream, close(1000)))

    def echo(self, stream, kind, size, credit):
        """Sends a message and reads it back; gives the credit that is left."""
        sent, back, chunk = 0, 0, b"m" * 65_536
        while back < size:
            while sent < size and credit:
                part = chunk[: min(credit, size - sent)]
                sent, credit = sent + len(part), credit - len(part)
                self.worker.send(pack(kind, stream, part, END if sent == size else 0))
            frame = self.worker.read()
            if frame.stream == stream and frame.name == "CREDIT":
                credit += struct.unpack(">I", frame.payload)[0]
            elif frame.stream == stream:
                self.assertEqual(frame.name, kind)
                back += len(frame.payload)
                self.worker.credit(stream, len(frame.payload))
                self.worker.credit(0, len(frame.payload))
        self.assertEqual((back, frame.end), (size, True))
        return credit

    def test_an_application_that_does_not_read_gets_no_more_than_the_credit(self):
        stream = self.open("/slow")
        for _ in range(2):
            self.say(stream, b"m" * 65_536)
        self.worker.get("/")
        self.assertEqual(self.worker.responses[stream].names, ["RESPONSE"])
        self.worker.get("/open-gate")
        response = self.worker.take(stream, lambda response: response.names.count("TEXT") == 2)
        back = sum(struct.unpack(">I", frame.payload)[0] for frame in response.frames if frame.name == "CREDIT")
        self.assertEqual(back, 131_072)

    def test_an_empty_message_costs_credit(self):
        stream = self.open("/slow")
        for _ in range(131_072 // 64):
            self.say(stream, "")
        self.worker.get("/")
        self.assertEqual(self.worker.responses[stream].names, ["RESPONSE"])
        self.worker.credit(stream, 65_536)  # it says something to each
        self.worker.get("/open-gate")
        response = self.worker.take(stream, lambda response: response.names.count("CREDIT") == 4)
        back = sum(struct.unpack(">I", frame.payload)[0] for frame in response.frames if frame.name == "CREDIT")
        self.assertEqual(back, 131_072)

    def test_empty_messages_wait_for_credit(self):
        stream = self.open("/push-empty")
        count = 65_536 // 64
        response = self.worker.take(stream, lambda response: response.names.count("TEXT") == count)
        self.worker.get("/")
        self.assertEqual(response.names.count("TEXT"), count)
        self.worker.credit(stream, 63)
        self.worker.get("/")
        self.assertEqual(response.names.count("TEXT"), count)
        self.worker.credit(stream, 1)
        self.worker.take(stream, lambda response: response.names.count("TEXT") == count + 1)
        self.worker.get("/")
        self.assertEqual(response.names.count("TEXT"), count + 1)
        self.worker.credit(stream, 65_536)
        self.worker.take(stream, lambda response: "CLOSE" in response.names)
        self.assertEqual(response.names.count("TEXT"), count + 2)

    def test_credit_of_messages_that_nobody_reads_comes_back(self):
        with Worker("asgi_app") as worker:
            for _ in range(40):  # twice what the connection has
                stream = worker.request("/leaves", flags=END | WEBSOCKET)
                worker.take(stream, lambda response: response.status)
                worker.send(pack("BINARY", stream, b"m" * 65_536, END))
                worker.send(pack("BINARY", stream, b"m" * 65_472, END) + pack("TEXT", stream, b"", END))
                worker.take(stream, lambda response: "CLOSE" in response.names)
            worker.get("/")
            back = sum(struct.unpack(">I", frame.payload)[0] for frame in worker.held if frame.name == "CREDIT")
            self.assertGreater(back, 39 * 131_072 - 2_097_152 // 4)

    def test_two_tasks_that_send_do_not_mix_their_messages(self):
        stream = self.open("/push")
        response, messages, current = self.worker.responses[stream], [], b""
        seen = 1
        while len(messages) < 6:
            self.worker.take(stream, lambda response: len(response.frames) > seen)
            frame = response.frames[seen]
            seen += 1
            current += frame.payload
            self.worker.credit(stream, len(frame.payload))
            self.worker.credit(0, len(frame.payload))
            if frame.end:
                messages.append(current)
                current = b""
        self.assertEqual(sorted(messages), [b"a" * 100_000] * 3 + [b"b" * 100_000] * 3)
        self.assertEqual(struct.unpack(">H", self.frame(stream, seen).payload)[0], 1000)  # it returned: an ordinary close

    def test_an_empty_message_does_not_break_into_another(self):
        stream = self.open("/empty-beside-large")
        response = self.worker.take(stream, lambda response: response.names.count("TEXT") == 1)
        self.worker.credit(stream, 65_536)
        self.worker.take(stream, lambda response: "CLOSE" in response.names)
        texts = [(len(frame.payload), frame.end) for frame in response.frames if frame.name == "TEXT"]
        self.assertEqual(texts, [(65_536, False), (34_464, True), (0, True)])

    def test_more_fields_than_fit_a_frame_are_the_applications_error(self):
        response = self.worker.response(self.ask("/too-many-fields"))
        self.assertEqual((response.status, response.reset[0]), (None, 3))

    def test_a_client_that_leaves_while_a_message_waits_for_credit(self):
        def action():
            stream = self.open("/push")
            self.worker.take(stream, lambda response: len(response.frames) > 1)
            self.worker.send(pack("CLOSE", stream, close(1006)))
            self.worker.response(stream)

        self.assertEqual(self.worker.log_of(action), "")
        self.assertEqual(self.seen(), ["ClientDisconnected"])

    def test_an_application_that_does_not_catch_the_end_gets_one_line(self):
        said = "the application did not catch WebSocketDisconnect: its client has closed the WebSocket\n"

        def action():
            stream = self.open("/lets-it-pass")
            self.worker.send(pack("CLOSE", stream, close(1001)))
            self.worker.take(stream, lambda response: "CLOSE" in response.names)
            self.worker.wait_for_log(said)

        self.assertEqual(self.worker.log_of(action), said)

    def test_the_client_closes(self):
        stream = self.open("/echo")
        self.worker.send(pack("CLOSE", stream, close(4005, "bye")))
        frame = self.frame(stream, 1)
        self.assertEqual((frame.name, frame.payload), ("CLOSE", close(4005)))
        self.assertEqual(self.seen(), [[4005, "bye"]])

    def test_the_client_is_lost(self):
        stream = self.open("/echo")
        self.worker.send(pack("CLOSE", stream, close(1006)))
        self.assertEqual(self.frame(stream, 1).name, "CLOSE")
        self.assertEqual(self.seen(), [[1006, ""]])

    def test_a_reset(self):
        stream = self.open("/echo")
        self.worker.reset(stream)
        self.assertEqual(self.worker.response(stream).reset[0], 1)
        self.assertEqual(self.seen(), [[1006, ""]])

    def test_the_application_closes(self):
        stream = self.open("/echo")
        self.say(stream, "close")
        frame = self.frame(stream, 1)
        self.assertEqual((frame.name, frame.payload), ("CLOSE", close(4001, "as you wish")))
        self.worker.send(pack("CLOSE", stream, close(4001)))  # Keepwarm's own, which crosses the end of the stream
        self.assertEqual(self.seen(), ["websocket.disconnect"])

    def test_the_application_returns(self):
        stream = self.open("/echo")
        self.say(stream, "return")
        self.assertEqual(self.frame(stream, 1).payload, close(1000))

    def test_the_application_fails(self):
        def action():
            stream = self.open("/echo")
            self.say(stream, "fail")
            self.assertEqual(self.frame(stream, 1).payload, close(1011))

        self.assertIn("ZeroDivisionError: in a WebSocket", self.worker.log_of(action))

    def test_the_application_fails_before_it_accepts(self):
        self.assertEqual(self.worker.response(self.ask("/fail")).reset[0], 3)

    def test_close_instead_of_accept_is_403(self):
        response = self.worker.response(self.ask("/refuse"))
        self.assertEqual((response.status, response.names), (403, ["RESPONSE"]))
        self.assertEqual(self.seen(), ["websocket.disconnect"])

    def test_a_denial_with_a_response(self):
        response = self.worker.response(self.ask("/deny"))
        self.assertEqual((response.status, response.fields, response.body), (401, [("x-why", "because")], b"not you"))

    def test_frames_that_do_not_belong_are_faults(self):
        for bad in (
            lambda stream: pack("DATA", stream, b"x"),
            lambda stream: pack("TEXT", stream, b"x") + pack("BINARY", stream, b"y", END),
            lambda stream: pack("TEXT", stream, b"\xff", END),
            lambda stream: pack("BINARY", stream, b"z" * 65_536, END) * 3,
        ):
            with Worker("asgi_app") as worker:
                stream = worker.request("/slow", flags=END | WEBSOCKET)
                worker.take(stream, lambda response: response.status)
                worker.send(bad(stream))
                while True:
                    frame = worker.read()
                    if frame is None:
                        break
                    self.assertEqual(frame.name, "CREDIT")
                self.assertIn("fault on the wire", worker.log())


class Body(bytes):
    """A message that counts the bytes that slicing it copies."""

    copied = 0

    def __getitem__(self, key):
        part = super().__getitem__(key)
        Body.copied += len(part)
        return Body(part)


class Sink:
    """A transport that counts."""

    def __init__(self):
        self.written = 0

    def write(self, data):
        self.written += len(data)


class LargeMessages(unittest.TestCase):
    """Not copied for each of their frames, of which there are hundreds."""

    FRAME, FRAMES = 65_536, 64

    def test_one_from_the_client_is_put_together_once(self):
        asyncio.run(asyncio.wait_for(self.receive_one(), PATIENCE))

    async def receive_one(self):
        received = asyncio.get_running_loop().create_future()

        async def application(scope, receive, send):
            await receive()
            await send({"type": "websocket.accept"})
            received.set_result(await receive())

        connection, stream, _ = await self.open(application)
        chunks = [bytes([number]) * self.FRAME for number in range(self.FRAMES)]
        first = None
        for chunk in chunks[:-1]:
            connection.data_received(pack("BINARY", 1, chunk))
            await asyncio.sleep(0)
            first = first or stream.parts[0]
        self.assertEqual([len(part) for part in stream.parts], [self.FRAME] * (self.FRAMES - 1))
        self.assertIs(stream.parts[0], first)
        connection.data_received(pack("BINARY", 1, chunks[-1], END))
        self.assertEqual((await received)["bytes"], b"".join(chunks))

    def test_one_to_the_client_is_cut_once(self):
        asyncio.run(asyncio.wait_for(self.send_one(), PATIENCE))

    async def send_one(self):
        size = self.FRAME * self.FRAMES
        sent = asyncio.get_running_loop().create_future()

        async def application(scope, receive, send):
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "bytes": Body(size)})
            sent.set_result(None)

        Body.copied = 0
        connection, _, sink = await self.open(application)
        while not sent.done():
            for stream in (0, 1):
                connection.data_received(pack("CREDIT", stream, struct.pack(">I", self.FRAME)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.assertGreater(sink.written, size)
        self.assertLessEqual(Body.copied, size)

    async def open(self, application):
        connection, sink = Asyncio(asyncio.get_running_loop(), application, WebSocketStream), Sink()
        connection.connection_made(sink)
        connection.data_received(pack("WELCOME", payload=WELCOME))
        connection.say_hello([])
        connection.data_received(pack("REQUEST", 1, struct.pack(">Q", 2**64 - 1) + block(REQUEST), END | WEBSOCKET))
        stream = connection.streams[1]
        while not stream.open:
            await asyncio.sleep(0)
        return connection, stream, sink


if __name__ == "__main__":
    unittest.main()
