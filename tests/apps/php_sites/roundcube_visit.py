"""Visits a Roundcube that has no mail server: `roundcube_visit.py URL before|after FILE_OF_COOKIES`. `before` tries to log in, `after` comes back."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: tokens and sessions."""
    return re.sub(r'("request_token":"|name="_token" value="|[?;&]s=|[?&]_t=)\w+', r"\1...", text)


visitor = Visitor(text=even, header=lambda value: re.sub(r"=[0-9A-Za-z%,-]{20,}|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT", "...", value))
visit = visitor.visit


def before():
    page = visit("GET", "/")
    assert "Roundcube Webmail" in page.text and page.headers["content-type"].startswith("text/html")
    form = {"_task": "login", "_action": "login", "_timezone": "Europe/Berlin", "_url": "", "_user": "ann", "_pass": "opensesame", "_token": re.search(r'name="_token" value="(\w+)"', page.text)[1]}
    told = visit("POST", "/?_task=login", data=form)
    assert told.status_code == 401 and "Connection to storage server failed." in told.text, told.text[-3000:]
    assert visit("POST", "/?_task=login", data={**form, "_token": "wrong"}).status_code in (200, 401)
    # Whoever has no session is asked to log in.
    assert 'name="_user"' in visit("GET", "/?_task=mail&_mbox=INBOX").text
    assert visit("GET", "/index.php?_task=utils&_action=text2html").status_code in (200, 302, 401, 403)
    for asset in ["/skins/elastic/styles/styles.min.css", "/program/js/app.min.js", "/skins/elastic/images/logo.svg", "/program/js/jquery.min.js"]:
        # The file's own fields are each server's.
        response = visitor.browser.get(visitor.base + asset)
        visitor.seen.append(["GET", asset, response.status_code, response.headers.get("content-type", "").split(";")[0].replace("application/javascript", "text/javascript"), len(response.content)])


def after():
    assert 'name="_user"' in visit("GET", "/").text


visitor.run(before, after)
