"""The scope of a request (ASGI HTTP & WebSocket, version 2.5)."""

from keepwarm import wire

_VERSIONS = {b"HTTP/1.1": "1.1", b"HTTP/1.0": "1.0", b"HTTP/2": "2", b"HTTP/2.0": "2", b"HTTP/3": "3"}
# What `extensions` says, by the flags of the request that matter to it: only what is true.
_EXTENSION_FLAGS = wire.EARLY_HINTS | wire.TRAILERS_OK
_EXTENSIONS = {
    flags: {
        "http.response.pathsend": {},
        **({"http.response.early_hint": {}} if flags & wire.EARLY_HINTS else {}),
        **({"http.response.trailers": {}} if flags & wire.TRAILERS_OK else {}),
    }
    for flags in (0, wire.EARLY_HINTS, wire.TRAILERS_OK, _EXTENSION_FLAGS)
}


class Extensions(dict):
    """Extensions that know whether the application has asked for `http.response.pathsend`."""

    asked = False

    def __contains__(self, name):
        if name == "http.response.pathsend":
            self.asked = True
        return dict.__contains__(self, name)

    def get(self, name, default=None):
        return self[name] if name in self else default


def offer_pathsend(offered):
    """From now on, requests are offered `http.response.pathsend`, or not."""
    for extensions in _EXTENSIONS.values():
        if offered:
            extensions["http.response.pathsend"] = {}
        else:
            extensions.pop("http.response.pathsend", None)


# The opening of a WebSocket as HTTP/1.1 has it (RFC 6455 §4.1). Keepwarm takes fields of the connection out, and HTTP/2 has none (RFC 8441 §5), but
# frameworks look for them (python-engineio, and with it Socket.IO and NiceGUI, refuses an opening without `Upgrade`), as uvicorn passes them on.
_OPENING = ((b"connection", b"Upgrade"), (b"upgrade", b"websocket"))

# The extension that names the user whom Keepwarm has authenticated (docs/guide/python.md).
USER = "keepwarm.user"


class _Texts(dict):
    """Bytes that come again and again -> their text."""

    def __missing__(self, raw):
        text = raw.decode("latin-1")
        if len(self) < 256:  # clients choose some of them, so they must not fill the memory
            self[raw] = text
        return text


_text_of = _Texts().__getitem__


def http(strings, flags, state):
    """The scope of an HTTP request from a REQUEST's strings (spec/wire.md §4)."""
    extensions = Extensions(_EXTENSIONS[flags & _EXTENSION_FLAGS])
    if flags & wire.USER:
        *strings, auth_type, user = strings
        extensions[USER] = {"name": user.decode("utf-8", "replace"), "auth_type": _text_of(auth_type)}
    method, protocol, scheme, path, raw_path, query, script, name, port, address, address_port = strings[:11]
    headers = list(zip(strings[11::2], strings[12::2]))
    if flags & wire.EXPECT:
        headers.append((b"expect", b"100-continue"))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5"},
        "http_version": _VERSIONS.get(protocol, "1.1"),
        "method": _text_of(method),
        "scheme": _text_of(scheme),
        "path": (script + path if script else path).decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": script.decode("utf-8", "replace") if script else "",
        "headers": headers,
        "server": (_text_of(name), int(port) if port else None) if name else None,
        "client": (_text_of(address), int(address_port or 0)) if address else None,
        "state": state.copy(),
        "extensions": extensions,
    }


def websocket(strings, flags, state):
    """The scope of a WebSocket's opening."""
    scope = http(strings, flags, state)
    del scope["method"]
    scope["type"] = "websocket"
    scope["scheme"] = "wss" if scope["scheme"] in ("https", "wss") else "ws"
    headers = scope["headers"]
    present = {name for name, _ in headers}
    headers.extend(field for field in _OPENING if field[0] not in present)
    offered = [value for name, value in headers if name == b"sec-websocket-protocol"]
    scope["subprotocols"] = [one.strip() for one in b",".join(offered).decode("latin-1").split(",") if one.strip()]
    user = scope["extensions"].get(USER)
    scope["extensions"] = {"websocket.http.response": {}} if user is None else {"websocket.http.response": {}, USER: user}
    return scope
