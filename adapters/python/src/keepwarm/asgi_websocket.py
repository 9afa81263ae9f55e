"""A WebSocket of an ASGI application."""
from keepwarm.asgi_http import HttpStream


class WebSocketStream(HttpStream):
    __slots__ = ()
