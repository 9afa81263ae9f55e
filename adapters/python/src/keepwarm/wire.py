"""The worker wire, version 1: bytes to frames and back (spec/wire.md). Pure: no socket, no clock.

The two hot frames have a `Struct` that covers the frame's head and the fixed part of its payload, so that a request
is taken apart and a response put together with one call each: `REQUEST_HEAD` and `RESPONSE_HEAD`.
"""

from struct import Struct

from keepwarm.errors import Fault

VERSION = 1

# Frame types (§2).
HELLO, WELCOME = 0x01, 0x02
REQUEST, DATA, TRAILERS, RESPONSE = 0x10, 0x11, 0x12, 0x13
INFORM, WANT, CREDIT, RESET, HALF_CLOSE = 0x14, 0x15, 0x16, 0x17, 0x18
TEXT, BINARY, CLOSE = 0x20, 0x21, 0x22
HIJACK = 0x19
PING, PONG, DRAIN, BUSY, SAMPLES = 0x30, 0x31, 0x32, 0x33, 0x34
LEAKS, GROWTH = 0x35, 0x36

# Flags. END is the same bit on every type that has it.
END = 0x01
EXPECT, REPEATS, EARLY_HINTS, WEBSOCKET, TRAILERS_OK, USER = 0x02, 0x04, 0x08, 0x10, 0x20, 0x40  # REQUEST
CLOSE_AFTER = 0x02  # RESPONSE

REQUEST_FLAGS = frozenset(flags for flags in range(0x80) if flags & (WEBSOCKET | END) != WEBSOCKET)  # a WebSocket comes with END (§7)

# Reset codes (§5).
CANCELLED, TIMEOUT, APP_ERROR, TOO_SHORT, INCOMPLETE, REFUSED = 1, 2, 3, 4, 5, 6

MAX_PAYLOAD = 131_072
MAX_CHUNK = 65_536  # of a body, in one frame
MAX_REASON = 1_024  # bytes of a RESET's reason
MAX_CLOSE_REASON = 123  # bytes of a CLOSE's reason: RFC 6455 §5.5, 125 less the code
MAX_CREDIT = 2**31 - 1
MIN_MESSAGE_COST = 64  # what a TEXT or BINARY frame costs at least (spec/wire.md §6)
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
_SAMPLES = Struct(">II")  # request, dropped
_GROWTH = Struct(">II")  # request, microseconds

# What Keepwarm may send: type -> (the flags it may carry, whether it belongs to a stream (None: either), the least and
# the most bytes of its payload).
_FROM_KEEPWARM = {
    WELCOME: (0, False, 18, MAX_PAYLOAD),
    REQUEST: (0x7F, True, 14, MAX_PAYLOAD),
    DATA: (END, True, 0, MAX_CHUNK),
    TRAILERS: (0, True, 6, MAX_PAYLOAD),
    CREDIT: (0, None, 4, 4),
    RESET: (0, True, 2, 2 + MAX_REASON),
    HALF_CLOSE: (0, True, 0, 0),
    TEXT: (END, True, 0, MAX_CHUNK),
    BINARY: (END, True, 0, MAX_CHUNK),
    CLOSE: (0, True, 2, 2 + MAX_CLOSE_REASON),
    PING: (0, False, 8, 8),
    DRAIN: (0, False, 0, 0),
    LEAKS: (END, False, 0, 0),
}
_ONLY_FROM_WORKER = frozenset((HELLO, RESPONSE, INFORM, WANT, PONG, BUSY, HIJACK, SAMPLES, GROWTH))


def check_head(length, kind, flags, stream):
    """Raises `Fault` unless the four parts of the head of a frame from Keepwarm go together (§2)."""
    if length > MAX_PAYLOAD:
        raise Fault("too_long", f"a frame of {length} bytes, over the limit of {MAX_PAYLOAD}")
    rule = _FROM_KEEPWARM.get(kind)
    if rule is None:
        name = "direction" if kind in _ONLY_FROM_WORKER else "unknown_type"
        raise Fault(name, f"a frame of type 0x{kind:02x}, which Keepwarm never sends")
    allowed, on_stream, least, most = rule
    if flags & ~allowed or (kind == REQUEST and flags not in REQUEST_FLAGS):
        raise Fault("flags", f"flags 0x{flags:02x} on a frame of type 0x{kind:02x}")
    if on_stream is not None and on_stream != (stream != 0):
        raise Fault("stream_id", f"a frame of type 0x{kind:02x} on stream {stream}")
    if not least <= length <= most:
        name = "too_short" if length < least else "too_long"
        raise Fault(name, f"a frame of type 0x{kind:02x} with a payload of {length} bytes")


def take_frame(buffer):
    """Takes the first frame off a `bytearray`: `(type, flags, stream, payload)`, or None while it is incomplete."""
    if len(buffer) < HEAD.size:
        return None
    length, kind, flags, stream = HEAD.unpack_from(buffer)
    check_head(length, kind, flags, stream)
    end = HEAD.size + length
    if len(buffer) < end:
        return None
    payload = bytes(memoryview(buffer)[HEAD.size : end])
    del buffer[:end]
    return kind, flags, stream, payload


# -- payloads Keepwarm sends ----------------------------------------------------------------------------------------


# Each of these gets the payload of a frame whose head `check_head` has passed.


def request_parts(data, start, end, flags):
    """A REQUEST's payload in `data[start:end]`: `(content_length, strings, body)`, the strings as bytes."""
    (content_length,) = _U64.unpack_from(data, start)
    strings, body_start = _strings(data, start + 8, end)
    check_request(len(strings), flags)
    if end - body_start > MAX_CHUNK:
        raise Fault("too_long", f"a REQUEST with {end - body_start} bytes of body")
    return content_length, strings, data[body_start:end]


def check_request(count, flags):
    """Raises `Fault` unless `count` strings are the fixed ones and whole pairs, the user's with USER (§4)."""
    if count < FIXED_STRINGS + (2 if flags & USER else 0) or (count - FIXED_STRINGS) % 2:
        raise Fault("fields", f"a REQUEST of {count} strings")


def decode_welcome(payload):
    """`(version_min, version_max, stream_credit, connection_credit, [(name, value)])` (§3), the pairs in bytes."""
    least, most, stream_credit, connection_credit = _WELCOME.unpack_from(payload)
    if not 1 <= least <= most:
        raise Fault("version", f"a WELCOME with versions {least} to {most}")
    for amount in (stream_credit, connection_credit):
        if not 65_536 <= amount <= MAX_CREDIT:
            raise Fault("credit", f"a first credit of {amount}")
    return least, most, stream_credit, connection_credit, _pairs(payload, _WELCOME.size)


def read_welcome(payload):
    """A WELCOME that this adapter can serve: `(stream_credit, connection_credit, {name: value})`."""
    least, most, stream_credit, connection_credit, pairs = decode_welcome(payload)
    if not least <= VERSION <= most:
        raise Fault("version", f"Keepwarm supports versions {least} to {most} of the wire protocol, this adapter version {VERSION}")
    about = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs}
    return stream_credit, connection_credit, about


def decode_trailers(payload):
    """A list of `(name, value)` in bytes."""
    return _pairs(payload, 0)


def decode_credit(payload):
    """The number of bytes that may be sent beyond what could be before (§6)."""
    (amount,) = _U32.unpack(payload)
    if not 1 <= amount <= MAX_CREDIT:
        raise Fault("credit", f"a CREDIT of {amount}")
    return amount


def decode_reason(payload):
    """`(code, reason)` of a RESET (§5) or a CLOSE (§7)."""
    (code,) = _U16.unpack_from(payload)
    try:
        return code, payload[_U16.size :].decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("utf8", "a reason that is not UTF-8") from None


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
    """An informational response; `text` as in `response`."""
    return RESPONSE_HEAD.pack(8 + len(text), INFORM, 0, stream, status, count, len(text)) + text


def trailers(stream, count, text):
    """The fields after a body, which end it; `text` as in `response`."""
    return HEAD.pack(6 + len(text), TRAILERS, 0, stream) + _BLOCK.pack(count, len(text)) + text


def message_cost(size):
    """The credit that a message costs in frames as large as they may be; for one frame, its own (§6)."""
    last = size % MAX_CHUNK
    return size if size and not last else size + max(0, MIN_MESSAGE_COST - last)


def credit(stream, amount):
    """Lets Keepwarm send `amount` bytes more on `stream`, or on the connection when it is 0."""
    return frame(CREDIT, 0, stream, _U32.pack(amount))


def samples(request, dropped, stacks):
    """Where this worker was (§10): `stacks` are pairs of a stack and its microseconds, both in bytes."""
    return frame(SAMPLES, 0, 0, _SAMPLES.pack(request, dropped) + block([part for pair in stacks for part in pair]))


def growth(request, microseconds, changes):
    """How what this worker holds has changed (§11): `changes` are pairs of a name and a number, both in bytes."""
    return frame(GROWTH, 0, 0, _GROWTH.pack(request, microseconds) + block([part for pair in changes for part in pair]))


def reset(stream, code, reason=""):
    """Ends the response here, incomplete. A long reason is cut at a character's border."""
    return frame(RESET, 0, stream, _U16.pack(code) + utf8_prefix(reason, MAX_REASON))


def close(stream, code, reason=""):
    """Closes a WebSocket. A long reason is cut at a character boundary."""
    return frame(CLOSE, 0, stream, _U16.pack(code) + utf8_prefix(reason, MAX_CLOSE_REASON))


def block(strings):
    """A string block of a list of bytes (§2.1)."""
    text = b"\0".join(strings)
    if strings and text.count(b"\0") != len(strings) - 1:
        raise ValueError("a string that contains NUL cannot be sent")
    return _BLOCK.pack(len(strings), len(text)) + text


def utf8_prefix(text, limit):
    """The longest beginning of `text` that takes at most `limit` bytes in UTF-8."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= limit else data[:limit].decode("utf-8", "ignore").encode()


# -- parts ----------------------------------------------------------------------------------------------------------


def _strings(data, start, end):
    """The strings of the block that begins at `start`, and where it ends."""
    count, length = _BLOCK.unpack_from(data, start)
    start += _BLOCK.size
    if length > end - start:
        raise Fault("too_short", "a string block longer than its frame")
    text = data[start : start + length]
    strings = text.split(b"\0") if count or length else []
    if len(strings) != count:
        raise Fault("strings", f"a string block of {len(strings)} strings instead of {count}")
    return strings, start + length


def _pairs(payload, start):
    """A block of names and values in turn that is the rest of the payload."""
    strings, end = _strings(payload, start, len(payload))
    if end != len(payload):
        raise Fault("too_long", f"{len(payload) - end} bytes after a string block")
    if len(strings) % 2:
        raise Fault("fields", f"an odd number of strings ({len(strings)}) in pairs of names and values")
    return list(zip(strings[::2], strings[1::2]))
