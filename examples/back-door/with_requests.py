"""requests: only the address changes."""

import os

import requests

search = os.environ.get("KEEPWARM_UPSTREAM_SEARCH", "https://search.internal:9243")
response = requests.get(f"{search}/documents", params={"q": "warm"}, timeout=10)
print(response.status_code, response.text)
print(requests.post(f"{search}/documents", json={"title": "Warm"}, timeout=10).text)
