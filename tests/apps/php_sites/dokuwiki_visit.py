"""Visits a DokuWiki as its author would: `dokuwiki_visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in, write a page, upload a picture, look at assets and at pages that are missing or forbidden. `after`: with the same session, read them, log out.
"""

import re
import sys
import zlib
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: tokens, times, and what is made of the host's name."""
    # Whether a picture was there when the page was put in the cache, whose times are whole seconds.
    text = text.replace('class="media wikilink2"', 'class="media"')
    text = re.sub(r'(name="sectok" value=|"sectok":|sectok=)"?[0-9a-f]*"?', r"\1...", text)
    text = re.sub(r"tseed=[0-9a-f]+|tok=[0-9a-f]+|\d{10}|\d{4}(?:-|\\?/)\d\d(?:-|\\?/)\d\d[ T][\d:+]+|DW[0-9a-f]{10,}|\d+:\d+:\d+", "...", text)
    return re.sub(r'(name="(?:date|changecheck|prefix)" value=)"[^"]*"', r"\1...", text)


visitor = Visitor(text=even, header=lambda value: re.sub(r"=[0-9A-Za-z%,-]{20,}|DW[0-9a-f]+|[0-9a-f]{32}|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT", "...", value))
visit = visitor.visit


def pixel():
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\x06\0\0\0") + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0\xff")) + chunk(b"IEND", b"")


def token(page):
    return re.search(r'name="sectok" value="([0-9a-f]*)"', page.text)[1]


def before():
    assert visit("GET", "/").status_code in (200, 404)
    assert visit("GET", "/start").status_code == 404
    assert visit("GET", "/doku.php?id=start").status_code == 404
    page = visit("GET", "/start?do=login")
    form = {"id": "start", "do": "login", "sectok": token(page), "u": "admin", "p": "wrong", "r": "1"}
    assert "Sorry, username or password was wrong." in visit("POST", "/start", data=form).text
    form["p"] = "kept-Warm-1!"
    assert visit("POST", "/start", data=form).status_code == 302
    assert "Logged in as" in visit("GET", "/start").text

    page = visit("GET", "/notes/stalls?do=edit")
    fields = {name: re.search(f'name="{name}" value="([^"]*)"', page.text)[1] for name in ["sectok", "date", "prefix", "suffix", "changecheck"]}
    text = "====== Stalls ======\nThe **five**, //gone//. caf\u00e9\n\n{{:pixel.png}}\n"
    saved = visit("POST", "/notes/stalls", data={**fields, "id": "notes:stalls", "rev": "0", "target": "section", "wikitext": text, "do[save]": "Save", "summary": "first"})
    assert saved.status_code == 302 and saved.headers["location"].endswith("/notes/stalls"), saved.headers
    assert "The <strong>five</strong>, <em>gone</em>. caf\u00e9" in visit("GET", "/notes/stalls").text

    page = visit("GET", "/start?do=media&tab_files=upload&ns=")
    picture = pixel()
    uploaded = visit(
        "POST", "/lib/exe/ajax.php?call=mediaupload&qqfile=pixel.png&ns=", params={"sectok": token(page)}, data=picture, headers={"Content-Type": "application/octet-stream"}
    )
    assert uploaded.json().get("success"), uploaded.text
    image = visit("GET", "/_media/pixel.png")
    assert (image.status_code, image.content, image.headers["content-type"]) == (200, picture, "image/png"), image.headers
    part = visit("GET", "/_media/pixel.png", headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"PNG")
    assert visit("GET", "/_media/pixel.png", headers={"If-None-Match": image.headers["etag"]}).status_code == 304
    assert visit("HEAD", "/_media/pixel.png").headers["content-length"] == str(len(picture))
    assert visit("GET", "/_media/gone.png").status_code == 404
    assert visit("GET", "/_detail/pixel.png").status_code == 200
    assert "café" in visit("GET", "/_export/raw/notes/stalls").content.decode()
    assert "The <strong>five</strong>" in visit("GET", "/_export/xhtmlbody/notes/stalls").text
    assert visit("GET", "/feed.php").status_code == 200
    assert visit("GET", "/notes/stalls?do=revisions").status_code == 200
    assert visit("GET", "/notes/stalls?do=search&q=gone").status_code == 200
    assert visit("GET", "/notes/not_there/gr%C3%BC%C3%9Fe").status_code == 404
    styles = visit("GET", "/lib/exe/css.php?t=dokuwiki")
    assert styles.status_code == 200 and styles.headers["content-type"].startswith("text/css")
    assert visit("GET", "/lib/exe/js.php?t=dokuwiki").status_code == 200


def after():
    assert "Logged in as" in visit("GET", "/notes/stalls").text
    page = visit("GET", "/notes/stalls?do=edit")
    assert "The **five**" in page.text
    assert visit("GET", "/start", params={"do": "logout", "sectok": token(page)}).status_code in (200, 302)
    assert "Logged in as" not in visit("GET", "/notes/stalls").text


visitor.run(before, after)
