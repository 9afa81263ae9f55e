"""One scenario in a real browser: `visit.py SCENARIO ORIGIN CA DIRECTORY [CHROMIUM_OPTION...]` prints what the page saw, as JSON.

Nothing is judged here, and nothing waits for a time: each step follows from the event of the one before.
"""

import json
import pathlib
import sys
import urllib.parse

from chromium import Browser, Page

# A bound for a promise, so that a hang names its step.
WITHIN = """
const within = (promise, step) => Promise.race([promise,
    new Promise((_, fail) => setTimeout(() => fail(new Error("nothing happened: " + step)), 60000))]);
"""

# The sources of all resources, and whether each picture is really one.
GALLERY = """
const pictures = [...document.images];
const resources = performance.getEntriesByType("resource").filter((each) => each.name.includes("/pictures/"));
return { pictures: pictures.length, shown: pictures.filter((each) => each.complete && each.naturalWidth === 8).length,
         names: new Set(resources.map((each) => each.name)).size,
         page: performance.getEntriesByType("navigation")[0].nextHopProtocol, protocols: resources.map((each) => each.nextHopProtocol) };
"""

# Text and binary messages, small and large, then the closing handshake.
ECHO = (
    WITHIN
    + """
const socket = new WebSocket("wss://" + location.host + "/echo");
socket.binaryType = "arraybuffer";
await within(new Promise((open, fail) => { socket.onopen = open; socket.onerror = () => fail(new Error("the handshake failed")); }), "open");
const next = (step) => within(new Promise((got, fail) => {
    socket.onmessage = (event) => got(event.data);
    socket.onclose = (event) => fail(new Error("closed " + event.code));
}), step);
const seen = [];
for (const text of ["hello", "", "é".repeat(40000)]) {
    const answer = next("text");
    socket.send(text);
    seen.push(await answer === text);
}
const bytes = crypto.getRandomValues(new Uint8Array(50000));
const answer = next("bytes");
socket.send(bytes);
const back = new Uint8Array(await answer);
seen.push(back.length === bytes.length && back.every((byte, at) => byte === bytes[at]));
const closed = within(new Promise((done) => { socket.onclose = done; }), "close");
socket.close(1000, "done");
const { code, wasClean } = await closed;
return { seen, code, wasClean };
"""
)

# Each piece of news is published once the one before has arrived.
NEWS = (
    WITHIN
    + """
const source = new EventSource("/news");
const arrived = [];
let wake = () => {};
source.onmessage = (event) => { arrived.push(event.data); wake(); };
const until = (count) => within(new Promise((done) => { wake = () => arrived.length >= count && done(); wake(); }), "event " + count);
await within(new Promise((open, fail) => { source.onopen = open; source.onerror = () => fail(new Error("no stream")); }), "open");
await until(1);
const counts = [];
for (let number = 1; number <= 5; number++) {
    const response = await fetch("/news", { method: "POST", body: "piece " + number });
    if (!response.ok) throw new Error("not published: " + response.status);
    await until(number + 1);
    counts.push(arrived.length);
}
source.close();
await fetch("/news", { method: "POST", body: "end" });
return { arrived, counts };
"""
)

# The browser reports progress while it sends: a slow line, which DevTools makes, so that there is something to report.
UPLOAD = (
    WITHIN
    + """
const bytes = new Uint8Array(1_500_000).map((_, at) => at * 7 + (at >> 8));
const request = new XMLHttpRequest();
const progress = [];
request.upload.onprogress = (event) => progress.push([event.loaded, event.total]);
const done = within(new Promise((done, fail) => { request.onload = done; request.onerror = () => fail(new Error("the upload failed")); }), "upload");
request.open("POST", "/upload");
request.setRequestHeader("Content-Type", "application/octet-stream");
request.send(bytes);
await done;
const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
return { status: request.status, response: JSON.parse(request.responseText), progress, size: bytes.length,
         sha256: [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
"""
)

# A form with a file above the route's limit, sent as a visitor would: the page that follows is the response.
REFUSED = """
const file = new File([new Uint8Array(6_000_000)], "large.bin");
const chosen = new DataTransfer();
chosen.items.add(file);
document.body.innerHTML = '<form method="post" action="/limited/upload" enctype="multipart/form-data"><input type="file" name="file"></form>';
document.querySelector("input").files = chosen.files;
document.querySelector("form").submit();
"""


def gallery(page, origin):
    error = page.open(f"{origin}/gallery?count=200")
    pictures = [each for each in page.responses() if "/pictures/" in each["url"]]
    return {"error": error, "connections": len({each["connectionId"] for each in pictures}), "statuses": [each["status"] for each in pictures], **page.run(GALLERY)}


def echo(page, origin):
    return {"error": page.open(f"{origin}/"), **page.run(ECHO)}


def news(page, origin):
    error = page.open(f"{origin}/")
    seen = page.run(NEWS)
    heads = [{name.lower(): value for name, value in each["headers"].items()} for each in page.responses() if each["mimeType"] == "text/event-stream"]
    return {"error": error, "codings": [head.get("content-encoding") for head in heads], **seen}


def upload(page, origin):
    error = page.open(f"{origin}/")
    page.command("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=1_000_000)
    return {"error": error, **page.run(UPLOAD)}


def refused(page, origin):
    page.open(f"{origin}/")
    page.browser.events.clear()
    page.run(REFUSED)
    page.wait_for("Page.loadEventFired")
    shown = page.run("return { url: location.href, title: document.title, text: document.body.innerText, status: performance.getEntriesByType('navigation')[0].responseStatus }")
    return {"protocols": [each["protocol"] for each in page.responses() if each["url"] == shown["url"]], **shown}


SCENARIOS = {scenario.__name__: scenario for scenario in (gallery, echo, news, upload, refused)}


def main():
    scenario, origin, ca, directory, *options = sys.argv[1:]
    home = pathlib.Path(directory)
    home.mkdir()
    with Browser(home, ca, urllib.parse.urlsplit(origin).hostname, *options) as browser:
        print(json.dumps(SCENARIOS[scenario](Page(browser), origin)))


if __name__ == "__main__":
    main()
