"""httpx: only the base URL changes."""

import os

import httpx

with httpx.Client(base_url=os.environ.get("KEEPWARM_UPSTREAM_SEARCH", "https://search.internal:9243"), timeout=10) as search:
    response = search.get("/documents", params={"q": "warm"})
    print(response.status_code, response.text)
    print(search.post("/documents", json={"title": "Warm"}).text)
