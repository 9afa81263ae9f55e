"""Factories, and no application."""


def application_of(body=b"made"):
    def application(environ, start_response):
        start_response("200 OK", [])
        return [body]

    return application


def create_app():
    return application_of()


def with_defaults(config=None, debug=False, more=()):
    return application_of()


def with_arguments(name, debug):
    assert name[0] == "a" and debug
    return application_of()


class Made:
    def __call__(self, environ, start_response):
        return application_of()(environ, start_response)


def wants_one(config):
    return application_of()


def makes_nothing():
    pass
