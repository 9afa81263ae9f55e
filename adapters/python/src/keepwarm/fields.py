"""A response's fields: from what an application gives to the text of a string block (spec/wire.md §2.1, §5).

Names come back again and again, so each is checked and classified once and remembered: `TEXT_NAMES` for WSGI's
strings, `BYTES_NAMES` for ASGI's bytes. Values are checked by looking through the joined text once.
"""

from itertools import chain

from keepwarm import log, wire

# Bytes of fields that always fit a RESPONSE beside its first body bytes and a Content-Length that the adapter adds.
MAX_TEXT = wire.MAX_PAYLOAD - wire.MAX_CHUNK - 64
PLAIN, LENGTH, HOP_BY_HOP, CONNECTION = 0, 1, 2, 3

# RFC 9110 §7.6.1, and RFC 9112 §6.1: these speak about a connection, which is Keepwarm's. `Trailer` travels.
_KINDS = {
    b"content-length": LENGTH,
    b"connection": CONNECTION,
    b"keep-alive": HOP_BY_HOP,
    b"proxy-connection": HOP_BY_HOP,
    b"te": HOP_BY_HOP,
    b"transfer-encoding": HOP_BY_HOP,
    b"upgrade": HOP_BY_HOP,
}
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")  # RFC 9110 §5.6.2
_MAX_REMEMBERED = 1_024  # names; an application that invents them without end must not fill the memory


class _Names(dict):
    """Name -> its kind; a name met for the first time is checked. `expected`: the type that the interface wants."""

    def __init__(self, expected):
        super().__init__()
        self.expected = expected

    def __missing__(self, name):
        if not isinstance(name, self.expected):
            raise TypeError(f"a header name is {type(name).__name__} instead of {self.expected.__name__}: {name!r}")
        raw = name if isinstance(name, bytes) else name.encode("latin-1", "replace")
        if not raw or not _TOKEN.issuperset(raw):
            raise ValueError(f"invalid header name: {name!r}")
        kind = _KINDS.get(raw.lower(), PLAIN)
        if len(self) < _MAX_REMEMBERED:
            self[name] = kind
        return kind


TEXT_NAMES = _Names(str)
BYTES_NAMES = _Names(bytes)


def text_block(headers):
    """WSGI's list of `(name, value)`: `(count, text, content_length or None, close)`. `text` is latin-1 bytes."""
    length, special = None, False
    for name, value in headers:
        kind = TEXT_NAMES[name]
        if kind:
            if kind != LENGTH:
                special = True
            elif length is None:
                length = content_length(value)
            elif length != content_length(value):
                raise ValueError(f"conflicting values of Content-Length: {length} and {value}")
    close = False
    if special:
        headers, close = without_hop_by_hop(headers, TEXT_NAMES)
    if not headers:
        return 0, b"", length, close
    text = "\0".join(chain.from_iterable(headers))
    count = 2 * len(headers)
    if "\n" in text or "\r" in text or text.count("\0") != count - 1:
        raise ValueError(f"CR, LF or NUL in a header value: {_bad_field(headers, chr)!r}")
    if len(text) > MAX_TEXT:
        raise _too_much(text)
    return count, text.encode("latin-1"), length, close


def bytes_block(headers):
    """ASGI's iterable of `[name, value]`: as `text_block`."""
    if not isinstance(headers, (list, tuple)):
        headers = list(headers)
    length, special = None, False
    for name, value in headers:
        kind = BYTES_NAMES[name]
        if kind:
            if kind != LENGTH:
                special = True
            elif length is None:
                length = content_length(value)
            elif length != content_length(value):
                raise ValueError(f"conflicting values of Content-Length: {length} and {value}")
    close = False
    if special:
        headers, close = without_hop_by_hop(headers, BYTES_NAMES)
    if not headers:
        return 0, b"", length, close
    text = b"\0".join(chain.from_iterable(headers))
    count = 2 * len(headers)
    if b"\n" in text or b"\r" in text or text.count(b"\0") != count - 1:
        raise ValueError(f"CR, LF or NUL in a header value: {_bad_field(headers, lambda code: bytes((code,)))!r}")
    if len(text) > MAX_TEXT:
        raise _too_much(text)
    return count, text, length, close


def _too_much(text):
    return ValueError(f"the headers take {len(text)} bytes; the limit is {MAX_TEXT}")


def content_length(value):
    """The number that a `Content-Length` says (RFC 9110 §8.6: digits and nothing else)."""
    if not (value.isdigit() and value.isascii()):
        raise ValueError(f"invalid Content-Length: {value!r}")
    return int(value)


def without_hop_by_hop(headers, names):
    """The fields that concern more than the connection, and whether the application wants it closed."""
    kept, close, named = [], False, set()
    for name, value in headers:
        kind = names[name]
        if kind < HOP_BY_HOP:
            kept.append((name, value))
            continue
        options = _options(value) if kind == CONNECTION else []
        named.update(options)
        if options == ["close"]:
            close = True
        else:
            close = close or "close" in options
            shown = name if isinstance(name, str) else name.decode("latin-1")
            log.warn_once(
                ("hop-by-hop", shown.lower()),
                f"the application sends the connection-specific header {shown}; it is not forwarded",
            )
    if named - {"close"}:  # RFC 9110 §7.6.1: what Connection names is the connection's too
        kept = [(name, value) for name, value in kept if names[name] == LENGTH or _lower(name) not in named]
    return kept, close


def _options(value):
    text = value if isinstance(value, str) else value.decode("latin-1")
    return [option.strip().lower() for option in text.split(",") if option.strip()]


def _lower(name):
    return (name if isinstance(name, str) else name.decode("latin-1")).lower()


def _bad_field(headers, character):
    bad = [character(code) for code in (0, 10, 13)]
    for name, value in headers:
        if any(one in value for one in bad):
            return name
    return None
