"""requests with fixed `https://` URLs: an adapter sends requests for one origin to its door.

The same two lines of `send` work as a Guzzle or Faraday middleware, a decorator of Symfony's HttpClient, or an httpx transport.
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
