"""Bytes of HTTP/2 (RFC 9113) and HPACK (RFC 7541), as attackers write them."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
LARGEST_WINDOW = 2**31 - 1


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def setting(number, value):
    return struct.pack(">HI", number, value)


def opening(*settings):
    """The preface, with these settings."""
    return PREFACE + frame(SETTINGS, 0, 0, b"".join(setting(*each) for each in settings))


def integer(value, prefix, first=0):
    """RFC 7541 §5.1."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    encoded, value = [first | most], value - most
    while value >= 128:
        encoded.append(value % 128 | 128)
        value //= 128
    return bytes([*encoded, value])


def text(value):
    return integer(len(value), 7) + value.encode()


def literal(name, value, first=0):
    """A header, by default without indexing; `first` 0x40 puts it into the dynamic table."""
    return bytes([first]) + text(name) + text(value)


def head(method, path, *fields):
    """The block of a request."""
    pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
    return b"".join(literal(name, value) for name, value in [*pseudo, *fields])


def request(stream, method="GET", path="/", flags=END_STREAM):
    return frame(HEADERS, END_HEADERS | flags, stream, head(method, path))
