"""Visits a Datasette as its reader would: `visit.py URL before|after FILE_OF_COOKIES`."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402


def even(text):
    """Without what differs from visit to visit: times and tokens."""
    text = re.sub(r'(name="csrftoken" value=)"[^"]*"', r"\1...", text)
    return re.sub(r'(Queries took |"query_ms": ?|"hash": ?|took )[\d.]+', r"\1...", text)


visitor = Visitor(text=even, header=lambda value: re.sub(r"(ds_actor|ds_csrftoken|ds_messages)=[^;]+", r"\1=...", value))
visit = visitor.visit


def before():
    assert visit("GET", "/").status_code == 200
    assert visit("GET", "/-/actor.json").json() == {"actor": None}
    assert visit("GET", "/-/auth-token?token=wrong").status_code == 403
    assert visit("GET", "/-/auth-token?token=sesame").status_code == 302
    assert visit("GET", "/-/actor.json").json() == {"actor": {"id": "root"}}
    assert "stall 1 caf\u00e9" in visit("GET", "/stalls/stalls").text
    assert visit("GET", "/stalls/stalls.json?_shape=array&_size=3").json()[2]["name"] == "stall 2 caf\u00e9"
    assert visit("GET", "/stalls/stalls.csv?_stream=1").text.count("\r\n") == 1_001
    assert "1000" in visit("GET", "/stalls?sql=select+count(*)+from+stalls").text
    assert visit("GET", "/stalls?sql=select+nonsense").status_code == 400
    assert visit("GET", "/stalls/stalls?_facet=milliseconds&name__contains=9").status_code == 200
    style = visit("GET", "/-/static/app.css")
    assert style.headers["content-type"].startswith("text/css")
    assert visit("GET", "/stalls.db").status_code == 403  # it may change
    assert visit("GET", "/nowhere").status_code == 404
    assert visit("HEAD", "/stalls/stalls").text == ""
    assert visit("OPTIONS", "/stalls/stalls.json").status_code in (200, 405)


def after():
    assert visit("GET", "/-/actor.json").json() == {"actor": {"id": "root"}}
    page = visit("GET", "/-/logout")
    assert visit("POST", "/-/logout").status_code == 403
    token = re.search(r'name="csrftoken" value="([^"]*)"', page.text)[1]
    assert visit("POST", "/-/logout", data={"csrftoken": token}).status_code == 302
    assert visit("GET", "/-/actor.json").json() == {"actor": None}


visitor.run(before, after)
