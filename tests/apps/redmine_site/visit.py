"""Visits Redmine as its user would: `visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in, make a project and an issue with a file, upload another, look at assets, downloads, exports, and pages that are missing or forbidden. `after`: with the same session, read it
all again, log out.
"""

import html
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: tokens, keys, times and names of forms. A PDF has times within what is compressed."""
    if text.startswith("%PDF"):
        return "PDF"
    text = text.replace(visitor.host.replace(":", "%3A"), "HOST")
    text = re.sub(r'name="[\w-]+-[0-9a-f]{8}"|key=[0-9a-f]{40}', "...", text)
    text = re.sub(r'(name="(?:csrf-token|authenticity_token)" (?:content|value)=)"[^"]*"', r"\1...", text)
    text = re.sub(r"\d\d/\d\d/\d{4} \d\d:\d\d [AP]M|\d{4}-\d\d-\d\d(?:T[\d:]+Z| [\d:]+ UTC)|less than a minute|\d+ minutes?", "TIME", text)
    return re.sub(r"(attachments\[p?\d*\]\[token\]\D*|')\d+\.[0-9a-f]{64}", r"\1TOKEN", text)


def header(value):
    value = value.replace(visitor.host.replace(":", "%3A"), "HOST")
    return re.sub(r'^(?:Redmine|_redmine_session)=[^;]+|W/"[0-9a-f]{32}"|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT|^[0-9a-f-]{36}$|^\d+\.\d{6}$', "...", value)


visitor = Visitor(text=even, header=header)
visit = visitor.visit
PAPER = bytes(range(256)) * 4_000


def token(page):
    return html.unescape(re.search(r'name="authenticity_token" value="([^"]*)"', page.text)[1])


def before():
    assert "Redmine" in visit("GET", "/").text
    login = visit("GET", "/login")
    form = {"authenticity_token": token(login), "username": "admin", "password": "wrong"}
    assert "Invalid user or password" in visit("POST", "/login", data=form).text
    assert visit("POST", "/login", data={**form, "authenticity_token": "x", "password": "admin"}).status_code == 422
    assert visit("GET", "/my/page").headers["location"].endswith("/login?back_url=" + visitor.base.replace(":", "%3A").replace("/", "%2F") + "%2Fmy%2Fpage")
    login = visit("POST", "/login", data={**form, "authenticity_token": token(visit("GET", "/login")), "password": "admin"})
    assert login.status_code == 302, login.text
    assert "Logged in as" in visit("GET", "/my/page").text

    page = visit("GET", "/projects/new")
    project = {"project[name]": "Caf\u00e9 <b>", "project[identifier]": "cafe", "project[is_public]": "1", "project[enabled_module_names][]": ["issue_tracking", "wiki", "files"]}
    assert visit("POST", "/projects", data={"authenticity_token": token(page), **project, "project[tracker_ids][]": ["1", "2"]}).status_code == 302
    page = visit("GET", "/projects/cafe/issues/new")
    issue = {"authenticity_token": token(page), "issue[tracker_id]": "1", "issue[subject]": "It stalls <i>", "issue[description]": "*Every* day\r\n\r\n* one\r\n* two"}
    made = visit("POST", "/projects/cafe/issues", data=issue, files={"attachments[dummy][file]": ("paper.bin", PAPER, "application/octet-stream")})
    assert made.status_code == 302, made.text
    page = visit("GET", "/issues/1")
    assert "It stalls &lt;i&gt;" in page.text and "<strong>Every</strong>" in page.text
    assert visit("GET", "/attachments/download/1/paper.bin").content == PAPER
    part = visit("GET", "/attachments/download/1/paper.bin", headers={"Range": "bytes=10-13"})
    assert part.content in (PAPER, PAPER[10:14])
    csrf = html.unescape(re.search(r'name="csrf-token" content="([^"]*)"', page.text)[1])
    sent = visit("POST", "/uploads.js?attachment_id=1&filename=more.txt", data=b"more\n" * 60_000, headers={"X-CSRF-Token": csrf, "Content-Type": "application/octet-stream"})
    assert sent.status_code in (200, 201), sent.text

    assert "It stalls" in visit("GET", "/projects/cafe/issues.csv").text
    assert visit("GET", "/issues/1.pdf").content.startswith(b"%PDF")
    assert "<feed" in visit("GET", "/projects/cafe/activity.atom").text
    style = re.search(r'href="(/stylesheets/application\.css\?\d+)"', page.text)[1]
    assert "sans-serif" in (sheet := visit("GET", style)).text
    assert visit("GET", style, headers={"If-Modified-Since": sheet.headers["last-modified"]}).status_code == 304
    assert visit("GET", "/javascripts/application.js").status_code == 200
    assert visit("GET", "/images/favicon.ico").status_code == 404
    assert visit("GET", "/favicon.ico").status_code == 200
    assert visit("GET", "/nowhere").status_code == 404
    assert visit("GET", "/issues/99").status_code == 404
    assert visit("HEAD", "/projects").text == ""


def after():
    page = visit("GET", "/issues/1")
    assert "Logged in as" in page.text and "It stalls" in page.text
    assert visit("GET", "/attachments/download/1/paper.bin").content == PAPER
    assert visit("POST", "/logout", data={"authenticity_token": token(page)}).status_code == 302
    assert "Logged in as" not in visit("GET", "/").text


visitor.run(before, after)
