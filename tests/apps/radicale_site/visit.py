"""Visits a Radicale as a calendar does: `visit.py URL before|after FILE_OF_COOKIES`."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from visitor import Visitor  # noqa: E402

visitor = Visitor(
    text=lambda text: re.sub(r'"[0-9a-f]{64}"|&quot;[0-9a-f]{64}&quot;|/sync/[0-9a-f]{64}|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT', "...", text),
    header=lambda value: re.sub(r'"[0-9a-f]{64}"|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT', "...", value),
)
ANN = ("ann", "sesame")
EVENT = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:{0}\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260{1}01T100000Z\r\nSUMMARY:caf\u00e9 {0}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"


def visit(method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return visitor.visit(method, path, data=body and body.encode(), headers=headers, auth=ANN)


def before():
    assert visitor.visit("GET", "/").status_code == 302
    assert visitor.visit("GET", "/.web/").status_code == 200
    assert visitor.visit("GET", "/.web/css/main.css").headers["content-type"].startswith("text/css")
    assert visitor.visit("PROPFIND", "/ann/").status_code == 401
    assert visitor.visit("PROPFIND", "/ann/", auth=("ann", "wrong")).status_code == 401
    assert visit("PROPFIND", "/ann/", Depth="0").status_code == 207
    assert visit("MKCALENDAR", "/ann/stalls/").status_code == 201
    for number in range(1, 6):
        assert visit("PUT", f"/ann/stalls/{number}.ics", EVENT.format(f"event-{number}", number), Content_Type="text/calendar; charset=utf-8").status_code == 201
    read = visit("GET", "/ann/stalls/3.ics")
    assert "caf\u00e9 event-3" in read.text
    etag = read.headers["etag"]
    assert visit("PUT", "/ann/stalls/3.ics", EVENT.format("event-3", 8), If_Match='"another"').status_code == 412
    assert visit("PUT", "/ann/stalls/3.ics", EVENT.format("event-3", 8), If_Match=etag).status_code in (201, 204)
    report = '<?xml version="1.0"?><C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop><D:getetag/><C:calendar-data/></D:prop><C:filter><C:comp-filter name="VCALENDAR"/></C:filter></C:calendar-query>'
    assert visit("REPORT", "/ann/stalls/", report, Depth="1").text.count("BEGIN:VEVENT") == 5
    assert visit("PUT", "/ann/stalls/bad.ics", "this is no calendar").status_code in (400, 403)
    assert visit("DELETE", "/ann/stalls/2.ics").status_code == 200
    assert visit("MOVE", "/ann/stalls/4.ics", Destination=f"{visitor.base}/ann/stalls/four.ics").status_code in (201, 204)
    assert visit("OPTIONS", "/ann/stalls/").headers["dav"]
    assert visit("HEAD", "/ann/stalls/1.ics").text == ""
    assert visit("GET", "/ann/nothing.ics").status_code == 404


def after():
    assert visit("PROPFIND", "/ann/stalls/", Depth="1").text.count("<response>") == 5
    whole = visit("GET", "/ann/stalls/")
    assert whole.text.count("BEGIN:VEVENT") == 4
    assert visit("DELETE", "/ann/stalls/").status_code == 200


visitor.run(before, after)
