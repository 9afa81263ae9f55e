"""What holds for every stream, however it ends: the connection gets its credit back, and nothing is said on a stream that is over."""

import asyncio
import random
import socket
import struct
import threading
import unittest
from unittest import mock

from keepwarm import threaded, wire
from keepwarm.asgi_connection import CONNECTION_CREDIT, STREAM_CREDIT, Asyncio
from keepwarm.asgi_websocket import WebSocketStream
from tests.driver import END, PATIENCE, TYPES, WEBSOCKET, block, pack

SEEDS = 150
WELCOME = struct.pack(">HHII", 1, 1, 65_536, 200_000) + block(["app", "test", "worker", "0", "workers", "1", "software", "keepwarm/0.0.1"])
REQUEST = ["POST", "HTTP/1.1", "http", "/", "/", "", "", "shop.example", "8080", "192.0.2.7", "52144"]


class Ledger:
    """Keepwarm's side of the rules: who may be sent how much, and what a worker may still say."""

    def __init__(self, stream_credit, connection_credit):
        self.first, self.whole = stream_credit, connection_credit
        self.connection = connection_credit
        self.streams = {}  # what may be sent on each that is open
        self.ended = set()  # by Keepwarm: no more of its frames
        self.responded = set()
        self.buffer = b""

    def open(self, stream):
        self.streams[stream] = self.first

    def heard(self, data):
        """Frames of the worker's; raises at what Keepwarm would end the worker for."""
        self.buffer += data
        while len(self.buffer) >= 10:
            length, kind, flags, stream = wire.HEAD.unpack_from(self.buffer)
            if len(self.buffer) < 10 + length:
                return
            payload, self.buffer = self.buffer[10 : 10 + length], self.buffer[10 + length :]
            self._frame(TYPES[kind], flags, stream, payload)

    def _frame(self, name, flags, stream, payload):
        if stream and stream not in self.streams:
            raise AssertionError(f"{name} on stream {stream}, which is over")
        if name == "CREDIT":
            (amount,) = struct.unpack(">I", payload)
            if stream:
                self.streams[stream] += amount
            else:
                self.connection += amount
                if self.connection > self.whole:
                    raise AssertionError(f"more credit than there was: {self.connection} of {self.whole}")
        elif name == "RESPONSE":
            if stream in self.responded:
                raise AssertionError(f"a second RESPONSE on stream {stream}")
            self.responded.add(stream)
        if name in ("RESET", "CLOSE", "TRAILERS") or (flags & END and name in ("RESPONSE", "DATA")):
            del self.streams[stream]

    def room(self, stream, most):
        return min(most, self.streams[stream], self.connection)

    def spend(self, stream, cost):
        self.connection -= cost
        if stream in self.streams:
            self.streams[stream] -= cost


@mock.patch("keepwarm.log.write", lambda text: None)
class Asgi(unittest.TestCase):
    def test_random_reads_aborts_and_ends(self):
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                asyncio.run(AsgiWorld(seed).run(), debug=False)


class Transport:
    def __init__(self, ledger):
        self.ledger = ledger

    def write(self, data):
        self.ledger.heard(bytes(data))

    def abort(self):
        raise AssertionError("a fault on the wire")


class AsgiWorld:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ledger = Ledger(STREAM_CREDIT, CONNECTION_CREDIT)
        self.sockets, self.messages = set(), {}

    async def run(self):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)  # the applications fail on purpose
        self.connection = connection = Asyncio(loop, self.application, WebSocketStream)
        connection.connection_made(Transport(self.ledger))
        connection.data_received(pack("WELCOME", payload=WELCOME))
        connection.say_hello([])
        for _ in range(self.random.randrange(50, 200)):
            self.step()
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
        for _ in range(3):
            for stream in list(self.ledger.streams):
                self.end(stream)
            for _ in range(50):
                await asyncio.sleep(0)
        self.grant(1 << 24)
        until = loop.time() + PATIENCE
        while connection.running and loop.time() < until:
            for stream in list(connection.running):
                stream.give_up()
            await asyncio.sleep(0)
        connection._flush()
        assert not self.ledger.streams, f"open: {self.ledger.streams}"
        allowance = connection.allowance
        assert allowance.left + allowance.owed == CONNECTION_CREDIT, f"{CONNECTION_CREDIT - allowance.left - allowance.owed} bytes are lost"
        assert self.ledger.connection == allowance.left

    # -- Keepwarm -----------------------------------------------------------------------------------------------------

    def step(self):
        draw = self.random.random()
        streams = list(self.ledger.streams)
        if draw < 0.25 or not streams:
            self.request()
        elif draw < 0.85:
            self.say(self.random.choice(streams))
        elif draw < 0.95:
            self.end(self.random.choice(streams))
        else:
            self.grant(self.random.choice([64, 1000, 65_536]))

    def request(self):
        number = self.connection.last_stream + 1
        websocket = self.random.random() < 0.5
        first = b"" if websocket else b"f" * self.random.choice([0, 0, 1, 1000, 65_536])
        self.ledger.open(number)
        if websocket:
            self.sockets.add(number)
        payload = struct.pack(">Q", 2**64 - 1) + block(REQUEST) + first
        self.connection.data_received(pack("REQUEST", number, payload, END | WEBSOCKET if websocket else 0))

    def say(self, stream):
        if stream in self.ledger.ended:
            return
        size = self.random.choice([0, 1, 63, 64, 65, 1000, 30_000, 65_536])
        end = self.random.random() < 0.3
        if stream not in self.sockets:
            size = self.ledger.room(stream, size)
            if end:
                self.ledger.ended.add(stream)
            self.give("DATA", stream, size, size, end)
        elif stream in self.ledger.responded and self.ledger.room(stream, max(size, 64)) >= max(size, 64):
            kind = self.messages.setdefault(stream, self.random.choice(["TEXT", "BINARY"]))
            if end:
                del self.messages[stream]
            self.give(kind, stream, size, max(size, 64), end)

    def give(self, name, stream, size, cost, end):
        self.ledger.spend(stream, cost)
        self.connection.data_received(pack(name, stream, b"m" * size, END if end else 0))

    def end(self, stream):
        if stream in self.sockets and stream in self.ledger.responded:
            if stream not in self.ledger.ended:
                self.ledger.ended.add(stream)
                code = self.random.choice([1000, 1001, 1006])
                self.connection.data_received(pack("CLOSE", stream, struct.pack(">H", code)))
        else:
            self.ledger.ended.add(stream)
            code = self.random.choice([1, 2, 5])
            self.connection.data_received(pack("RESET", stream, struct.pack(">H", code)))

    def grant(self, amount):
        data = pack("CREDIT", 0, struct.pack(">I", min(amount, 2**31 - 1 - self.connection.credit)))
        for stream in self.ledger.streams:
            data += pack("CREDIT", stream, struct.pack(">I", amount))
        self.connection.data_received(data)

    # -- the application ----------------------------------------------------------------------------------------------

    async def application(self, scope, receive, send):
        draw = random.Random(self.random.random())
        websocket = scope["type"] == "websocket"
        if websocket:
            await receive()
            if draw.random() < 0.1:
                return await send({"type": "websocket.close"})
            await send({"type": "websocket.accept"})
        else:
            for _ in range(draw.randrange(4)):
                await receive()
            await send({"type": "http.response.start", "status": draw.choice([200, 204]), "headers": []})
        for _ in range(draw.randrange(8)):
            what = draw.random()
            if what < 0.4:
                await receive()
            elif what < 0.6:
                await asyncio.sleep(draw.choice([0, 0, 0.001]))
            elif what < 0.65:
                raise ZeroDivisionError("on purpose")
            else:
                sending = self.send(draw, send, websocket)
                if draw.random() < 0.3:
                    asyncio.ensure_future(sending)
                else:
                    await sending
        if draw.random() < 0.7:
            if websocket:
                await send({"type": "websocket.close"})
            else:
                await send({"type": "http.response.body"})
        if draw.random() < 0.3:
            await receive()

    async def send(self, draw, send, websocket):
        body = b"a" * draw.choice([0, 1, 64, 1000, 65_536, 65_537, 150_000])
        if websocket:
            await send({"type": "websocket.send", "bytes": body})
        else:
            await send({"type": "http.response.body", "body": body, "more_body": True})


class Threads(unittest.TestCase):
    def test_bodies_read_partly_or_not_at_all(self):
        """Each costs more than what the connection has, were it not given back."""

        def application(environ, start_response):
            size = int(environ["QUERY_STRING"])
            environ["wsgi.input"].read(size)
            start_response("200 OK", [])
            return [b"done"]

        whole = threaded._CONNECTION_CREDIT
        mine, theirs = socket.socketpair()
        mine.settimeout(PATIENCE)
        connection = threaded.Threaded(theirs, 2)
        connection.credit = connection.first_credit = 1 << 20
        connection.say_hello([])
        pool = threaded.Pool(connection, application, {}, NoLeaks())
        for worker in pool.workers:
            threading.Thread(target=worker.run, daemon=True).start()
        reader = threading.Thread(target=connection.read_forever, daemon=True)
        reader.start()
        ledger, draw, number = Ledger(262_144, whole), random.Random(1), 0
        for _ in range(300):
            number += 1
            ledger.open(number)
            read = draw.choice([0, 1, 1000, 60_000, 65_535, 65_536, 65_537, 90_000])
            strings = [*REQUEST[:5], str(read), *REQUEST[6:]]
            mine.sendall(pack("REQUEST", number, struct.pack(">Q", 2**64 - 1) + block(strings)))
            for part in draw.choice([(50_000, 50_000), (65_536, 65_536), (1, 65_536, 65_535)]):
                if number not in ledger.streams:
                    break
                self.assertGreaterEqual(ledger.connection, part, f"credit is lost at request {number}")
                ledger.spend(number, part)
                mine.sendall(pack("DATA", number, b"d" * part))
            while number in ledger.streams:
                ledger.heard(mine.recv(65_536))
        mine.sendall(pack("DRAIN"))
        reader.join(PATIENCE)
        self.assertEqual(connection.allowance.left + connection.allowance.owed, whole)
        mine.close()


class NoLeaks:
    noted = False


if __name__ == "__main__":
    unittest.main()
