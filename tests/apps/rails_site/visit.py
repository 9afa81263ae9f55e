"""Visits the notebook as its user would: `visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in, write a note with a file, look at streams, assets, and pages that are missing or broken. `after`: with the same session, read it all again, log out.
"""

import html
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: tokens and signed names."""
    text = re.sub(r'(name="(?:csrf-token|authenticity_token)" (?:content|value)=)"[^"]*"', r"\1...", text)
    return re.sub(r"/rails/active_storage/[^\"<>]*", "/rails/active_storage/...", text)


def header(value):
    value = re.sub(r"/rails/active_storage/[^\"<>]*", "/rails/active_storage/...", value)
    return re.sub(r'_session=[^;]+|W/"[0-9a-f]{32}"|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT|^[0-9a-f-]{36}$|^\d+\.\d{6}$', "...", value)


visitor = Visitor(text=even, header=header)
visit = visitor.visit


def token(page, action):
    form = page.text[page.text.index(f'action="{action}"'):]
    return html.unescape(re.search(r'name="authenticity_token" value="([^"]*)"', form)[1])


def before():
    page = visit("GET", "/")
    assert "Visitor: nobody" in page.text
    assert visit("POST", "/login", data={"name": "ann", "password": "sesame"}).status_code == 422  # no token
    form = {"authenticity_token": token(page, "/login"), "name": "ann", "password": "wrong"}
    assert visit("POST", "/login", data=form).status_code == 403
    assert visit("POST", "/login", data={**form, "password": "sesame"}).status_code == 302
    page = visit("GET", "/")
    assert "Welcome, ann" in page.text and "Visitor: ann" in page.text

    paper = bytes(range(256)) * 4_000
    note = visit("POST", "/notes", data={"authenticity_token": token(page, "/notes"), "title": "caf\u00e9 <b>"}, files={"file": ("paper.bin", paper, "application/octet-stream")})
    assert note.status_code == 302, note.text
    page = visit("GET", "/notes/1")
    assert "café &lt;b&gt;" in page.text
    redirect = visit("GET", html.unescape(re.search(r'href="(/rails/active_storage/[^"]*)"', page.text)[1]))
    assert redirect.status_code == 302
    where = redirect.headers["location"].removeprefix(visitor.base)
    response = visit("GET", where)
    assert response.content == paper
    part = visit("GET", where, headers={"Range": "bytes=10-13"})
    assert (part.status_code, part.content) == (206, paper[10:14])

    page = visit("GET", "/notes/1")
    style = re.search(r'href="(/assets/[^"]*\.css)"', page.text)[1]
    assert visit("GET", style).status_code == 200
    assert visit("GET", "/robots.txt").status_code == 200
    assert visit("GET", "/parts").text.count("<li>part") == 3
    assert visit("GET", "/live").text == 'event: tick\ndata: {"number":1}\n\nevent: tick\ndata: {"number":2}\n\n'
    plain = visit("GET", "/greeting")
    assert visit("GET", "/greeting", headers={"If-None-Match": plain.headers["etag"]}).status_code == 304
    assert visit("HEAD", "/greeting").text == ""
    assert visit("GET", "/nowhere").status_code == 404
    assert visit("GET", "/broken").status_code == 500


def after():
    page = visit("GET", "/")
    assert "Visitor: ann" in page.text and "by ann" in page.text
    assert visit("POST", "/login", data={"_method": "delete", "authenticity_token": token(page, "/login")}).status_code in (302, 422)


visitor.run(before, after)
