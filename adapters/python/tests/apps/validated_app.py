"""An application inside `wsgiref.validate`, which raises when the server breaks PEP 3333."""

from wsgiref.validate import validator


@validator
def application(environ, start_response):
    body = environ["wsgi.input"].read(100)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"read ", body] if body else [b"read "]
