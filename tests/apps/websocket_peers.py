"""Clients of other hands against an echo: `websockets` and `wsproto`, with every form of permessage-deflate that they speak. `websocket_peers.py HOST PORT PATH`."""

import random
import socket
import sys

from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory as Deflate
from websockets.sync.client import connect
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Message, Ping, Pong, Request, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason

HOST, PORT, PATH = sys.argv[1], int(sys.argv[2]), sys.argv[3]
LIMIT = 16 << 20  # limits.websocket_message


def messages():
    """Text and bytes of every size at an edge; what repeats, and what does not."""
    draws = random.Random(14)
    for size in (0, 1, 63, 64, 65, 125, 126, 127, 4095, 4096, 4097, 65_535, 65_536, 65_537, 300_000):
        yield "h\u00e9llo \U0001f600 " * (size // 12) + "x" * (size % 12)
        yield draws.randbytes(size)
        yield b"\x00" * size
    for number in range(200):
        yield '{"type":"message","room":"lobby","user":%d,"text":"number %d"}' % (draws.randrange(1000), number)


def with_websockets(name, factories, large):
    uri = f"ws://{HOST}:{PORT}{PATH}"
    with connect(uri, compression=None, extensions=factories, max_size=None, open_timeout=60, close_timeout=60) as client:
        agreed = [extension.name for extension in client.protocol.extensions]
        assert agreed == (["permessage-deflate"] if factories else []), (name, agreed)
        for message in messages():
            client.send(message)
            assert client.recv(timeout=60) == message, (name, len(message))
        for message in large:
            client.send(message)
            assert client.recv(timeout=120) == message, (name, len(message))
        # In fragments, compressed as one message.
        client.send(iter(["one ", "t\u00e9xt ", "in parts"] * 100))
        assert client.recv(timeout=60) == "one t\u00e9xt in parts" * 100, name
        assert client.ping(b"are you there").wait(60), name
    assert client.close_code == 1000, (name, client.close_code)
    return client.response.headers.get("Sec-WebSocket-Extensions")


def with_wsproto(name, extension):
    sock = socket.create_connection((HOST, PORT), 60)
    peer = WSConnection(ConnectionType.CLIENT)
    sock.sendall(peer.send(Request(host=HOST, target=PATH, extensions=[extension] if extension else [])))

    def events():
        while True:
            yield from peer.events()
            peer.receive_data(sock.recv(65_536) or None)

    coming = events()
    accepted = next(coming)
    assert isinstance(accepted, AcceptConnection), accepted
    assert len(accepted.extensions) == (1 if extension else 0), (name, accepted)
    for message in messages():
        sock.sendall(peer.send(Message(data=message)))
        parts = []
        while True:
            event = next(coming)
            if isinstance(event, Ping):
                sock.sendall(peer.send(event.response()))
                continue
            assert isinstance(event, (TextMessage, BytesMessage)), (name, event)
            parts.append(event.data)
            if event.message_finished:
                break
        assert (b"" if isinstance(message, bytes) else "").join(map(type(message), parts)) == message, (name, len(message))
    sock.sendall(peer.send(Ping(payload=b"payload")))
    assert next(coming) == Pong(payload=b"payload"), name
    sock.sendall(peer.send(CloseConnection(code=CloseReason.NORMAL_CLOSURE, reason="bye")))
    closed = next(coming)
    assert isinstance(closed, CloseConnection) and closed.code == 1000, (name, closed)


def main():
    draws = random.Random(16)
    # One frame each, as this client sends every message.
    large = [draws.randbytes(LIMIT - 1), draws.randbytes(LIMIT), "\u00e9" * (LIMIT // 2)]
    forms = {
        "none": ([], large),
        "default": ([Deflate(compress_settings={"memLevel": 5})], []),
        "browser": ([Deflate(client_max_window_bits=True)], large),
        "small windows": ([Deflate(server_max_window_bits=9, client_max_window_bits=9)], []),
        "no takeover": ([Deflate(server_no_context_takeover=True, client_no_context_takeover=True)], []),
        "client without": ([Deflate(client_no_context_takeover=True, client_max_window_bits=12)], []),
        "second offer": ([Deflate(server_max_window_bits=8), Deflate(client_max_window_bits=True)], []),
    }
    for name, (factories, more) in forms.items():
        print("websockets", name, with_websockets(name, factories, more), flush=True)
    for name, extension in {
        "none": None,
        "default": PerMessageDeflate(),
        "no takeover": PerMessageDeflate(client_no_context_takeover=True, server_no_context_takeover=True),
        "small windows": PerMessageDeflate(client_max_window_bits=9, server_max_window_bits=9),
    }.items():
        with_wsproto(name, extension)
        print("wsproto", name, flush=True)


main()
