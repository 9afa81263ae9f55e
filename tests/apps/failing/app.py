import logging


def pay():
    raise ValueError("no such card")


def application(environ, start_response):
    if environ["PATH_INFO"] == "/":
        start_response("200 OK", [])
        return [b"ready"]
    if environ["PATH_INFO"] == "/logged":
        try:
            pay()
        except ValueError:
            logging.exception("cannot pay")
        start_response("200 OK", [])
        return [b"logged"]
    try:
        pay()
    except ValueError as error:
        raise RuntimeError("in vain") from error
