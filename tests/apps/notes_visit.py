"""Visits the notes of `express_site` and `go_site` as their user would: `notes_visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in, write a note, upload, look at assets and at pages that are missing or broken. `after`: with the same session, read the notes and log out.
"""

import hashlib

from visitor import Visitor

visitor = Visitor()
visit = visitor.visit


def before():
    assert visit("GET", "/").headers["location"] == "/login"
    assert visit("GET", "/login").status_code == 200
    assert visit("POST", "/login", data={"user": "ann", "password": "wrong"}).status_code == 401
    assert visit("POST", "/login", data={"user": "ann", "password": "opensesame"}).status_code == 303
    assert "Notes of ann" in visit("GET", "/").text
    assert visit("POST", "/notes", data={"text": "caf\u00e9 <b>"}).status_code == 303
    paper = bytes(range(256)) * 12_000
    told = visit("POST", "/upload", files={"paper": ("paper.bin", paper, "application/octet-stream")}).json()
    assert told == {"name": "paper.bin", "size": len(paper), "sha256": hashlib.sha256(paper).hexdigest()}
    assert visit("POST", "/json", json={"a": [1, 2]}).json() == {"got": {"a": [1, 2]}}
    style = visit("GET", "/static/site.css")
    assert style.status_code == 200 and "sans-serif" in style.text
    assert visit("GET", "/static/site.css", headers={"If-Modified-Since": style.headers["last-modified"]}).status_code == 304
    part = visit("GET", "/file", headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.text) == (206, "body")
    assert len(visit("GET", "/long").text) == 105_000
    assert len(visit("GET", "/long", headers={"Accept-Encoding": "identity"}).text) == 105_000
    assert visit("GET", "/events").text.endswith("id: 3\ndata: tick 3\n\n")
    assert visit("GET", "/seen?a=1&b=%2F").status_code == 200
    assert visit("GET", "/nowhere").status_code == 404
    assert visit("HEAD", "/").text == ""


def after():
    page = visit("GET", "/")
    assert "caf\u00e9 &#60;b&#62;" in page.text or "caf\u00e9 &lt;b&gt;" in page.text, page.text
    assert visit("POST", "/logout").status_code == 303
    assert visit("GET", "/").headers["location"] == "/login"


visitor.run(before, after)
