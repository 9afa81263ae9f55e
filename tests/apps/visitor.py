"""A visitor of a site, for the scripts that compare what Keepwarm and another server make of the same application.

Such a script is called with `URL before|after FILE_OF_COOKIES`: `before` begins a session, `after` goes on with it when the server has been reloaded. What
was seen, each request with its method, path, status, headers and page, is printed as JSON. Dates and lengths differ by themselves and are left out, and so is `Status`, by which a script speaks to its server.
"""

import json
import pickle
import re
import sys

import requests

SKIPPED = {"date", "expires", "content-length", "server", "connection", "keep-alive", "transfer-encoding", "status"}


class Visitor:
    """`header` and `text` take out what differs from visit to visit; `cookies` does with the list of a response's."""

    def __init__(self, header=lambda value: value, text=lambda text: text, cookies=lambda lines: lines):
        self.base, self.part, self.cookies = sys.argv[1:]
        self.host = self.base.removeprefix("http://")
        self.header, self.text, self.even_cookies = header, text, cookies
        self.seen = []
        self.browser = requests.Session()

    def visit(self, method, path, **more):
        response = self.browser.request(method, self.base + path, allow_redirects=False, timeout=30, **more)
        headers = {}
        for name, value in response.raw.headers.items():
            if name.lower() not in SKIPPED:
                value = self.header(re.sub(r"expires=[^;]+", "expires=...", value))
                headers.setdefault(name.lower(), []).append(value.replace(self.host, "HOST"))
        if "set-cookie" in headers:
            headers["set-cookie"] = self.even_cookies(headers["set-cookie"])
        self.seen.append([method, self.text(path), response.status_code, headers, self.text(response.text).replace(self.host, "HOST")])
        return response

    def run(self, before, after):
        if self.part == "before":
            before()
            with open(self.cookies, "wb") as file:
                pickle.dump(self.browser.cookies, file)
        else:
            with open(self.cookies, "rb") as file:
                self.browser.cookies = pickle.load(file)
            after()
        json.dump(self.seen, sys.stdout)
