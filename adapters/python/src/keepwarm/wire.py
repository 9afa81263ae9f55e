"""The worker wire, version 1: bytes to frames and back (spec/wire.md). Pure: no socket, no clock.

The two hot frames have a `Struct` that covers the frame's head and the fixed part of its payload, so that a request
is taken apart and an answer put together with one call each: `REQUEST_HEAD` and `RESPONSE_HEAD`.
"""

from struct import Struct

from keepwarm.errors import Fault

VERSION = 1

# Frame types (§2).
HELLO, WELCOME = 0x01, 0x02
REQUEST, DATA, TRAILERS, RESPONSE = 0x10, 0x11, 0x12, 0x13
INFORM, WANT, CREDIT, RESET = 0x14, 0x15, 0x16, 0x17
TEXT, BINARY, CLOSE = 0x20, 0x21, 0x22
PING, PONG, DRAIN = 0x30, 0x31, 0x32

# Flags. END is the same bit on every type that has it.
END = 0x01
EXPECT, REPEATS, EARLY_HINTS, WEBSOCKET, TRAILERS_OK = 0x02, 0x04, 0x08, 0x10, 0x20  # REQUEST
CLOSE_AFTER = 0x02  # RESPONSE

# Reset codes (§5).
CANCELLED, TIMEOUT, APP_ERROR, TOO_SHORT, INCOMPLETE, REFUSED = 1, 2, 3, 4, 5, 6

MAX_PAYLOAD = 131_072
MAX_CHUNK = 65_536  # of a body, in one frame
MAX_REASON = 1_024  # bytes of a RESET's reason
MAX_CLOSE_REASON = 123  # bytes of a CLOSE's reason: RFC 6455 §5.5, 125 less the code
MAX_CREDIT = 2**31 - 1
UNKNOWN_LENGTH = 2**64 - 1  # of a chunked body
FIXED_STRINGS = 11  # at the head of a REQUEST's string block

HEAD = Struct(">IBBI")  # length, type, flags, stream
REQUEST_HEAD = Struct(">IBBIQHI")  # and content_length, count, text length
RESPONSE_HEAD = Struct(">IBBIHHI")  # and status, count, text length
_BLOCK = Struct(">HI")
_WELCOME = Struct(">HHII")
_HELLO = Struct(">HIII")  # version, streams, stream_credit, connection_credit
_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")

# What Keepwarm may send: type -> (the flags it may carry, whether it belongs to a stream; None = both).
_FROM_KEEPWARM = {
    WELCOME: (0, False),
    REQUEST: (0x3F, True),
    DATA: (END, True),
    TRAILERS: (0, True),
    CREDIT: (0, None),
    RESET: (0, True),
    TEXT: (END, True),
    BINARY: (END, True),
    CLOSE: (0, True),
    PING: (0, False),
    DRAIN: (0, False),
}
# What a worker may send, in the same form.
_FROM_WORKER = {
    HELLO: (0, False),
    DATA: (END, True),
    TRAILERS: (0, True),
    RESPONSE: (END | CLOSE_AFTER, True),
    INFORM: (0, True),
    WANT: (0, True),
    CREDIT: (0, None),
    RESET: (0, True),
    TEXT: (END, True),
    BINARY: (END, True),
    CLOSE: (0, True),
    PONG: (0, False),
    DRAIN: (0, False),
}


def check_head(length, kind, flags, stream, known=_FROM_KEEPWARM):
    """Raises `Fault` unless the four parts of a frame's head go together (§2)."""
    if length > MAX_PAYLOAD:
        raise Fault(f"a frame of {length} bytes, over the limit of {MAX_PAYLOAD}")
    rule = known.get(kind)
    if rule is None:
        raise Fault(f"a frame of the unknown type 0x{kind:02x}")
    allowed, on_stream = rule
    if flags & ~allowed:
        raise Fault(f"flags 0x{flags:02x} on a frame of type 0x{kind:02x}")
    if on_stream is not None and on_stream != (stream != 0):
        raise Fault(f"a frame of type 0x{kind:02x} on stream {stream}")


def take_frame(buffer, known=_FROM_KEEPWARM):
    """Takes the first frame off a `bytearray`: `(type, flags, stream, payload)`, or None while it is incomplete."""
    if len(buffer) < HEAD.size:
        return None
    length, kind, flags, stream = HEAD.unpack_from(buffer)
    check_head(length, kind, flags, stream, known)
    end = HEAD.size + length
    if len(buffer) < end:
        return None
    payload = bytes(memoryview(buffer)[HEAD.size : end])
    del buffer[:end]
    return kind, flags, stream, payload


# -- payloads Keepwarm sends ----------------------------------------------------------------------------------------


def request_parts(data, start, end):
    """A REQUEST's payload in `data[start:end]`: `(content_length, strings, body)`, the strings as bytes."""
    if end - start < 14:
        raise Fault("a REQUEST that is too short")
    (content_length,) = _U64.unpack_from(data, start)
    strings, body_start = _strings(data, start + 8, end)
    check_request(len(strings))
    if end - body_start > MAX_CHUNK:
        raise Fault(f"a REQUEST with {end - body_start} bytes of body")
    return content_length, strings, data[body_start:end]


def check_request(count):
    """Raises `Fault` unless `count` strings are the fixed ones and whole pairs (§4)."""
    if count < FIXED_STRINGS or (count - FIXED_STRINGS) % 2:
        raise Fault(f"a REQUEST of {count} strings")


def decode_welcome(payload):
    """`(version_min, version_max, stream_credit, connection_credit, {name: value})` (§3)."""
    least, most, stream_credit, connection_credit = _unpack(_WELCOME, payload, "WELCOME")
    _check_first_credit(stream_credit)
    _check_first_credit(connection_credit)
    names = _whole_block(payload, _WELCOME.size, "WELCOME")
    pairs = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in names}
    return least, most, stream_credit, connection_credit, pairs


def decode_trailers(payload):
    """A list of `(name, value)` in bytes."""
    return _whole_block(payload, 0, "TRAILERS")


def decode_credit(payload):
    """The number of bytes that may be sent beyond what could be before (§6)."""
    (amount,) = _unpack(_U32, payload, "CREDIT", exact=True)
    if not 1 <= amount <= MAX_CREDIT:
        raise Fault(f"a CREDIT of {amount}")
    return amount


def decode_reset(payload):
    """`(code, reason)` (§5)."""
    return _code_and_reason(payload, "RESET", MAX_REASON)


def decode_close(payload):
    """`(code, reason)` (§7)."""
    return _code_and_reason(payload, "CLOSE", MAX_CLOSE_REASON)


def decode_ping(payload):
    """The eight bytes that a PONG carries back (§8)."""
    if len(payload) != 8:
        raise Fault(f"a PING of {len(payload)} bytes")
    return payload


def check_chunk(payload):
    """Raises `Fault` when a DATA, TEXT or BINARY frame carries more than a frame may."""
    if len(payload) > MAX_CHUNK:
        raise Fault(f"{len(payload)} bytes of data in one frame")


def check_empty(payload, name):
    """Raises `Fault` when a frame that has no payload brings one."""
    if payload:
        raise Fault(f"a {name} with a payload")


# -- frames a worker sends ------------------------------------------------------------------------------------------


def frame(kind, flags, stream, payload=b""):
    """Any frame, whole."""
    return HEAD.pack(len(payload), kind, flags, stream) + payload


def hello(streams, stream_credit, connection_credit, pairs):
    """`pairs`: what the worker says about itself (§3)."""
    strings = [part.encode("utf-8", "replace") for pair in pairs for part in pair]
    return frame(HELLO, 0, 0, _HELLO.pack(VERSION, streams, stream_credit, connection_credit) + block(strings))


def response(stream, flags, status, count, text, body=b""):
    """`text`: `count` strings, already joined by NUL (see `fields`)."""
    length = 8 + len(text) + len(body)
    return RESPONSE_HEAD.pack(length, RESPONSE, flags, stream, status, count, len(text)) + text + body


def inform(stream, status, count, text):
    """An informational answer; `text` as in `response`."""
    return RESPONSE_HEAD.pack(8 + len(text), INFORM, 0, stream, status, count, len(text)) + text


def trailers(stream, count, text):
    """The fields after a body, which end it; `text` as in `response`."""
    return HEAD.pack(6 + len(text), TRAILERS, 0, stream) + _BLOCK.pack(count, len(text)) + text


def credit(stream, amount):
    """Lets Keepwarm send `amount` bytes more on `stream`, or on the connection when it is 0."""
    return frame(CREDIT, 0, stream, _U32.pack(amount))


def reset(stream, code, reason=""):
    """Ends the answer here, incomplete. A long reason is cut at a character's border."""
    return frame(RESET, 0, stream, _U16.pack(code) + utf8_prefix(reason, MAX_REASON))


def close(stream, code, reason=""):
    """Says goodbye on a WebSocket. A long reason is cut at a character's border."""
    return frame(CLOSE, 0, stream, _U16.pack(code) + utf8_prefix(reason, MAX_CLOSE_REASON))


def block(strings):
    """A string block of a list of bytes (§2.1)."""
    text = b"\0".join(strings)
    if strings and text.count(b"\0") != len(strings) - 1:
        raise ValueError("a string that contains NUL cannot travel")
    return _BLOCK.pack(len(strings), len(text)) + text


def utf8_prefix(text, limit):
    """The longest beginning of `text` that takes at most `limit` bytes in UTF-8."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= limit else data[:limit].decode("utf-8", "ignore").encode()


# -- parts ----------------------------------------------------------------------------------------------------------


def _strings(data, start, end):
    """The strings of the block that begins at `start`, and where it ends."""
    if end - start < _BLOCK.size:
        raise Fault("a string block that is too short")
    count, length = _BLOCK.unpack_from(data, start)
    start += _BLOCK.size
    if length > end - start or (not count and length):
        raise Fault("a string block longer than its frame")
    if not count:
        return [], start
    strings = data[start : start + length].split(b"\0")
    if len(strings) != count:
        raise Fault(f"a string block of {len(strings)} strings that promised {count}")
    return strings, start + length


def _whole_block(payload, start, name):
    strings, end = _strings(payload, start, len(payload))
    if end != len(payload) or len(strings) % 2:
        raise Fault(f"a {name} that is not name and value in turn")
    return list(zip(strings[::2], strings[1::2]))


def _unpack(struct, payload, name, exact=False):
    if len(payload) < struct.size or (exact and len(payload) > struct.size):
        raise Fault(f"a {name} of {len(payload)} bytes")
    return struct.unpack_from(payload)


def _code_and_reason(payload, name, limit):
    (code,) = _unpack(_U16, payload, name)
    if len(payload) - _U16.size > limit:
        raise Fault(f"a {name} with a reason of {len(payload) - _U16.size} bytes")
    try:
        return code, payload[_U16.size :].decode("utf-8")
    except UnicodeDecodeError:
        raise Fault(f"a {name} whose reason is not UTF-8") from None


def _check_first_credit(amount):
    if not 65_536 <= amount <= MAX_CREDIT:
        raise Fault(f"a first credit of {amount}")
