"""Visits the site's admin as its user would, and prints what came as JSON: `visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in with the form, add a note with an upload, look at pages that are missing or broken. `after`: with the same session, change that
note and log out. Tokens, dates and lengths differ by themselves and are left out.
"""

import json
import pickle
import re
import sys

import requests

BASE, PART, COOKIES = sys.argv[1:]
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
SKIPPED = {"date", "expires", "content-length", "server", "connection", "keep-alive", "transfer-encoding"}
seen = []
browser = requests.Session()


def visit(method, path, **more):
    response = browser.request(method, BASE + path, allow_redirects=False, timeout=30, **more)
    headers = {}
    for name, value in response.raw.headers.items():
        if name.lower() in SKIPPED:
            continue
        value = re.sub(r"(csrftoken|sessionid)=\w+", r"\1=...", value)
        value = re.sub(r"(messages=[^;]*?):\w+:[^;]+", r"\1...", value)  # signed with the time
        value = re.sub(r"expires=[^;]+", "expires=...", value)
        headers.setdefault(name.lower(), []).append(value)
    text = re.sub(r'(csrfmiddlewaretoken" value=")[^"]+', r"\1...", response.text)
    text = re.sub(r'<time[^>]*>[^<]*</time>|\d\d:\d\d(:\d\d)?|value="\d{4}-\d\d-\d\d"|papers/\S+?\.bin', "...", text)
    seen.append([method, path, response.status_code, headers, text])
    return response


def form(path, files=None, **values):
    token = TOKEN.search(visit("GET", path).text)
    assert token, f"no form at {path}: {seen[-1]}"
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
    token = browser.cookies["csrftoken"]
    assert visit("POST", "/admin/logout/", data={"csrfmiddlewaretoken": token}).status_code == 200
    assert visit("GET", "/admin/").status_code == 302


if PART == "before":
    before()
    with open(COOKIES, "wb") as file:
        pickle.dump(browser.cookies, file)
else:
    with open(COOKIES, "rb") as file:
        browser.cookies = pickle.load(file)
    after()
json.dump(seen, sys.stdout)
