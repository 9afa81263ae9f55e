#!/usr/bin/env python3
"""The servers that `scripts/demo` compares Keepwarm with, and the client of its fourth row. Standard library only, except the application.

    demo_servers.py keep-open PORT        responds to HTTP/1.0 without a close, as Slim 3.6 behind Apache did in 2016
    demo_servers.py wsgiref PORT          the Flask example under Python's wsgiref
    demo_servers.py origin PORT CERT KEY  an HTTPS service that counts its handshakes, on /handshakes
    demo_servers.py calls URL COUNT       calls it COUNT times, each on a new connection; prints milliseconds per call
    demo_servers.py ports COUNT           prints COUNT free ports
"""

import http.client
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def main(command, *arguments):
    commands = {"keep-open": keep_open, "wsgiref": wsgiref, "origin": origin, "calls": calls, "ports": ports}
    commands[command](*arguments)


def keep_open(port):
    """No server of today does this: the response says HTTP/1.1 and not `Connection: close`, and the connection stays open for five seconds."""
    listener = socket.create_server(("127.0.0.1", int(port)))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=respond_and_wait, args=(connection,), daemon=True).start()


def respond_and_wait(connection):
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 16\r\n\r\nWelcome to Slim!")
        connection.settimeout(5)
        try:
            connection.recv(65536)
        except TimeoutError:
            pass


def wsgiref(port):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from shop.wsgi import application

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    make_server("127.0.0.1", int(port), application, handler_class=Quiet).serve_forever()


class Origin(ThreadingHTTPServer):
    handshakes = 0

    def __init__(self, port, context):
        super().__init__(("127.0.0.1", port), Service)
        self.context = context

    def finish_request(self, request, address):
        """In the connection's own thread: one that only connects holds up nobody."""
        try:
            with self.context.wrap_socket(request, server_side=True) as encrypted:
                self.handshakes += 1
                super().finish_request(encrypted, address)
        except OSError:
            pass


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are one segment.
    wbufsize = -1

    def do_GET(self):
        body = f"{self.server.handshakes}\n".encode() if self.path == "/handshakes" else b"a document\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def origin(port, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    Origin(int(port), context).serve_forever()


def calls(url, count):
    """As an application does that shares nothing between its requests."""
    target = urllib.parse.urlsplit(url)
    # The demo's certificate is its own; what is measured is the handshake.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    begun = time.perf_counter()
    for _ in range(int(count)):
        if target.scheme == "https":
            connection = http.client.HTTPSConnection(target.netloc, context=context)
        else:
            connection = http.client.HTTPConnection(target.netloc)
        connection.request("GET", "/document")
        response = connection.getresponse()
        if (response.status, response.read()) != (200, b"a document\n"):
            sys.exit(f"{url} responded with {response.status}")
        connection.close()
    print(f"{(time.perf_counter() - begun) * 1000 / int(count):.1f}")


def ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(count))]
    print(" ".join(str(one.getsockname()[1]) for one in sockets))


if __name__ == "__main__":
    main(*sys.argv[1:])
