"""Visits a phpMyAdmin as its user would: `phpmyadmin_visit.py URL before|after FILE_OF_COOKIES`.

`before`: log in, make a table anew, import a file, look at rows and assets. `after`: with the same session, export, log out.
"""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: tokens, times, sessions."""
    text = re.sub(r'(name="(?:token|set_session)" value=)"[^"]*"', r"\1...", text)
    text = re.sub(r'("?(?:token|set_session|server_time|time|last_access|execTime)"?\s*[:=]\s*)"?[0-9A-Za-z%.,-]+"?', r"\1...", text)
    text = re.sub(r"took \d+\.\d+ seconds|\w{3} \d\d, \d{4} at \d\d:\d\d [AP]M|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|[0-9a-f]{32}|\d{7,10}", "...", text)
    return re.sub(r"Apache/[^\s<\"]*[^<\"\n]*|keepwarm/[0-9.]+", "SERVER", text)


# With mod_php a session's cookie that was replaced is sent as well.
visitor = Visitor(text=even, cookies=lambda lines: sorted(set(lines)), header=lambda value: re.sub(r"=[0-9A-Za-z%,-]{20,}|=[0-9A-Za-z%+/=]{40,}|\w{3}, \d\d \w{3} \d{4} [\d:]+ (?:GMT|\+0000)|(?<=token=)\w+|[0-9a-f]{32}", "...", value))
visit = visitor.visit


def token(page):
    return re.search(r'name="token" value="([^"]*)"', page.text)[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&quot;", '"').replace("&#039;", "'")


def before():
    page = visit("GET", "/")
    assert 'name="pma_username"' in page.text
    session = re.search(r'name="set_session" value="([^"]*)"', page.text)[1]
    form = {"set_session": session, "pma_username": "ann", "pma_password": "wrong", "server": "1", "route": "/", "token": token(page)}
    page = visit("POST", "/index.php?route=/", data=form)
    assert "Access denied" in page.text
    form |= {"pma_password": "kept-Warm-1!", "token": token(page), "set_session": re.search(r'name="set_session" value="([^"]*)"', page.text)[1]}
    assert visit("POST", "/index.php?route=/", data=form).status_code == 302
    page = visit("GET", "/index.php?route=/")
    assert "ann@localhost" in page.text
    key = token(page)

    def sql(text, **more):
        return visit("POST", "/index.php?route=/sql", data={"server": "1", "sql_query": text, "token": key, "ajax_request": "true", "is_js_confirmed": "1", **more})

    assert sql("DROP TABLE notes", db="kept").json()["success"]
    assert sql("CREATE TABLE notes (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200)) CHARACTER SET utf8mb4", db="kept").json()["success"]
    assert not sql("CREATE TABLE broken (", db="kept").json()["success"]
    dump = "INSERT INTO notes (text) VALUES ('the five stalls'), ('café <b>');\n" + "-- filling\n" * 20_000
    page = visit(
        "POST",
        "/index.php?route=/import",
        data={"token": key, "server": "1", "db": "kept", "import_type": "database", "format": "sql", "charset_of_file": "utf-8", "skip_queries": "0", "sql_compatibility": "NONE", "noplugin": "5"},
        files={"import_file": ("dump.sql", dump.encode(), "application/sql")},
    )
    assert "Import has been successfully finished" in page.text, page.text[:3000]
    page = visit("GET", "/index.php?route=/sql&server=1&db=kept&table=notes&pos=0")
    assert "the five stalls" in page.text and "café &lt;b&gt;" in page.text
    assert "notes" in visit("GET", "/index.php?route=/database/structure&server=1&db=kept").text
    assert visit("GET", "/index.php?route=/not/there").status_code == 404
    assert visit("GET", "/url.php?url=https%3A%2F%2Fwww.phpmyadmin.net%2F").status_code == 200
    assert visit("GET", "/js/messages.php?l=en").headers["content-type"].startswith("text/javascript")
    for asset, kind in [("/themes/pmahomme/css/theme.css", "text/css"), ("/themes/pmahomme/img/logo_left.png", "image/png"), ("/js/vendor/jquery/jquery.min.js", "javascript")]:
        # The file's own fields are each server's.
        response = visitor.browser.get(visitor.base + asset)
        assert response.status_code == 200 and kind in response.headers["content-type"], asset
        visitor.seen.append(["GET", asset, len(response.content)])


def after():
    page = visit("GET", "/index.php?route=/database/export&server=1&db=kept")
    key = token(page)
    told = visit(
        "POST",
        "/index.php?route=/export",
        data={
            "token": key, "server": "1", "db": "kept", "export_type": "database", "export_method": "quick", "quick_or_custom": "quick", "what": "csv", "structure_or_data_forced": "0",
            "table_select[]": "notes", "table_data[]": "notes", "output_format": "sendit", "filename_template": "@DATABASE@", "charset": "utf-8", "compression": "none",
            "csv_separator": ",", "csv_enclosed": '"', "csv_escaped": '"', "csv_terminated": "AUTO", "csv_null": "NULL", "csv_structure_or_data": "data",
        },
    )
    assert "the five stalls" in told.text and "attachment" in told.headers["content-disposition"], told.text[:2000]
    assert visit("POST", "/index.php?route=/logout", data={"token": key}).status_code == 302
    assert 'name="pma_username"' in visit("GET", "/index.php?route=/").text


visitor.run(before, after)
