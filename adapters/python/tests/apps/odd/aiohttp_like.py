"""An application of a server of its own."""


class Application:
    def __call__(self):
        return self


Application.__module__ = "aiohttp.web_app"
app = Application()
