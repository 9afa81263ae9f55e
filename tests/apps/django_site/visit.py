"""Visits the site's admin as its user would: `visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in with the form, add a note with an upload, look at pages that are missing or broken. `after`: with the same session, change that
note and log out. Tokens differ by themselves and are left out.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from visitor import Visitor

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def header(value):
    value = re.sub(r"(csrftoken|sessionid)=\w+", r"\1=...", value)
    return re.sub(r"(messages=[^;]*?):\w+:[^;]+", r"\1...", value)  # signed with the time


def text(page):
    page = re.sub(r'(csrfmiddlewaretoken" value=")[^"]+', r"\1...", page)
    return re.sub(r'<time[^>]*>[^<]*</time>|\d\d:\d\d(:\d\d)?|value="\d{4}-\d\d-\d\d"|papers/\S+?\.bin', "...", page)


visitor = Visitor(header, text)
visit = visitor.visit


def form(path, files=None, **values):
    token = TOKEN.search(visit("GET", path).text)
    assert token, f"no form at {path}: {visitor.seen[-1]}"
    return visit("POST", path, data={"csrfmiddlewaretoken": token.group(1), **values}, files=files)


def before():
    assert visit("GET", "/admin/").headers["location"] == "/admin/login/?next=/admin/"
    wrong = form("/admin/login/?next=/admin/", username="root", password="wrong")
    assert wrong.status_code == 200 and "Please enter the correct username" in wrong.text
    assert form("/admin/login/?next=/admin/", username="root", password="opensesame").status_code == 302
    assert "Site administration" in visit("GET", "/admin/").text
    assert visit("POST", "/admin/notes/note/add/", data={"title": "without a token"}).status_code == 403
    paper = {"paper": ("paper.bin", bytes(range(256)) * 12_000, "application/octet-stream")}
    assert form("/admin/notes/note/add/", files=paper, title="caf\u00e9", _save="Save").status_code == 302
    assert "was added successfully" in visit("GET", "/admin/notes/note/").text
    assert visit("GET", "/nowhere").status_code == 404
    assert visit("GET", "/broken").status_code == 500
    assert visit("HEAD", "/admin/").status_code == 200


def after():
    page = visit("GET", "/admin/notes/note/1/change/")
    assert page.status_code == 200 and 'value="caf\u00e9"' in page.text, page.text
    assert form("/admin/notes/note/1/change/", title="tea", _save="Save").status_code == 302
    assert form("/admin/notes/note/1/delete/", post="yes").status_code == 302
    assert "was deleted successfully" in visit("GET", "/admin/notes/note/").text
    # The button to log out is a form of every page.
    assert form("/admin/password_change/").status_code == 200
    token = visitor.browser.cookies["csrftoken"]
    assert visit("POST", "/admin/logout/", data={"csrfmiddlewaretoken": token}).status_code == 200
    assert visit("GET", "/admin/").status_code == 302


visitor.run(before, after)
