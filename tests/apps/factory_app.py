"""An application that is made by a factory."""


def create_app(text="made", debug=False):
    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{text} {debug}".encode()]

    return application
