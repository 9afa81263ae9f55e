"""requests, where `https://` URLs come from elsewhere and cannot change: an adapter carries those of one origin to its door.

The same two lines of `send` are a middleware of Guzzle, a decorator of Symfony's HttpClient, a middleware of Faraday or a transport of httpx.
"""

import os

import requests

ORIGIN = "https://search.internal:9243"


class Door(requests.adapters.HTTPAdapter):
    def send(self, request, **options):
        request.url = os.environ["KEEPWARM_UPSTREAM_SEARCH"] + request.url.removeprefix(ORIGIN)
        return super().send(request, **options)


session = requests.Session()
if "KEEPWARM_UPSTREAM_SEARCH" in os.environ:
    session.mount(ORIGIN, Door())
response = session.get(f"{ORIGIN}/documents", params={"q": "warm"}, timeout=10)
print(response.status_code, response.text)
print(session.post(f"{ORIGIN}/documents", json={"title": "Warm"}, timeout=10).text)
