"""The page of `[admin]` in a real browser: `page.py SCENARIO ADDRESS DIRECTORY [ARGUMENT...]` prints what was seen, as JSON.

Nothing is judged here, and nothing waits for a time: each step follows from a change of the document. Where a scenario needs what a small server
cannot have, the page's own `fetch` is given a stream with snapshots of the scenario; everything else is the server's.
"""

import base64
import json
import os
import pathlib
import signal
import sys

from chromium import Browser, Page

# `until(test)` waits for changes of the document; `page` are short names for what is looked at.
LOOK = """
globalThis.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
globalThis.until = (test, step) => new Promise((done, fail) => {
    const give_up = setTimeout(() => fail(new Error(`not within a minute: ${step}\\n${document.body.innerText.slice(0, 3000)}`)), 60000);
    const check = () => {
        const value = test();
        if (!value) return;
        observer.disconnect();
        clearTimeout(give_up);
        done(value);
    };
    const observer = new MutationObserver(check);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    check();
});
globalThis.$ = (selector) => document.querySelector(selector);
globalThis.texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent);
globalThis.rows = () => [...document.querySelectorAll("#rows tr")].map((row) => [...row.children].map((cell) => cell.textContent));
globalThis.isShown = () => $("#about").textContent.includes("generation");
"""

# In place of the stream: `push(snapshot)` resolves when the page has drawn it.
FAKE = """
globalThis.fetched = [];
globalThis.give = null;
const fetchOfServer = globalThis.fetch;
globalThis.fetch = async (path, options) => {
    fetched.push(String(path));
    if (path !== "/events") return fetchOfServer(path, options);
    const stream = new ReadableStream({ start: (controller) => { give = (bytes) => controller.enqueue(bytes); } });
    return new Response(stream, { status: 200 });
};
globalThis.pushText = async (text) => {
    give(new TextEncoder().encode("event: snapshot\\ndata: " + text + "\\n\\n"));
    await new Promise((next) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = next; port2.postMessage(0); });
};
globalThis.push = async (snapshot) => {
    const wanted = `generation ${snapshot.status.generation}`;
    await pushText(JSON.stringify(snapshot));
    await until(() => $("#about").textContent.endsWith(wanted), wanted);
};
"""

# A snapshot with `apps`, `workers` and `endpoints`; `change` makes it the one of a second later. `text` makes each name.
SNAPSHOT = """
globalThis.makeSnapshot = (apps, workers, endpoints, text = (name) => name) => {
    const figures = { per_second: 1.5, mean_seconds: 0.02, p50_seconds: 0.01, p90_seconds: 0.03, p99_seconds: 0.05, failed: 0.1 };
    const each = (count, make) => Array.from({ length: count }, (_, at) => make(at));
    const requests = () => ({ none: 0, "1xx": 0, "2xx": 10, "3xx": 0, "4xx": 0, "5xx": 1, total: 11 });
    const app = (at) => text(`app${at}`);
    const upstreams = Math.ceil(endpoints / 100);
    const call = (at) => ({ upstream: text("search"), endpoint: text("10.0.0.1:443"), known_by: ["request_id", "trace", "time", "route"][at % 4], start_seconds: 0.1 + at / 10, seconds: 0.5,
        queue_seconds: 0.05, connect_seconds: 0.1, first_byte_seconds: 0.3, body_seconds: 0.05, status: 200, failure: at === 1 ? text("reset") : null, attempts: 1 + at });
    const recent = (at, status) => ({ time: text("2027-01-01T00:00:00.000Z"), seconds_ago: 3 * at + 1, id: text(`recent${at}`), trace_id: at === 1 ? text("4bf92f3577b34da6a3ce929d0e0e4736") : null,
        method: text("GET"), path: text(`/slow/${at}`), status, reason: status === 200 ? null : text("worker_died"), app: app(at % apps), route: text("/slow/*"), worker: 1, pid: 1000,
        seconds: 2, slow_seconds: 1, phases: { read_seconds: 0.001, retry_seconds: at === 11 ? 0.1 : 0, queue_seconds: 0.2, app_seconds: 1.5, body_seconds: 0.2, write_seconds: 0.099 },
        calls: each(at % 3, call), call_count: at === 2 ? 30 : at % 3, call_seconds: 0.5 * (at % 3),
        stacks: each(at % 3, (number) => ({ phase: text("app"), calls: ["a", "b", "c", "d", "e"].map((call) => text(`${call} (shop.py:${number})`)), waiting: number === 0, seconds: 1.2 - number })) });
    return {
        time: new Date(1.8e12).toISOString(), window_seconds: 10, now: { ...figures },
        routes: each(apps, (at) => ({ app: app(at), route: text(`/route/${at}/*`), requests: requests(), now: { ...figures } })),
        recent: { slow: each(3, (at) => recent(at, 200)), slow_total: 3, failed: each(2, (at) => recent(10 + at, 502)), failed_total: 2 },
        memory: each(workers, (at) => ({ app: app(at % apps), number: 1 + Math.floor(at / apps), pid: 1000 + at, change_bytes: at - 5 })),
        why: {
            healthy: false, observed_seconds: 100, upstreams: [], certificates: [], machine: {},
            findings: [{ id: text("upstream_slow"), severity: "fault", app: app(0), upstream: text("search"), since: text("then"), seconds: 192,
                         evidence: text("68 % of the time is spent in calls to upstream"), figures: {}, meaning: text("It is slow."), remedy: text("Look there.") },
                       { id: text("memory_growth"), severity: "note", app: null, upstream: null, since: "", seconds: 5, evidence: text("It grows."), figures: {},
                         meaning: text("It grows."), remedy: text("Look.") }],
            apps: each(apps, (at) => ({ name: app(at), now: { ...figures }, usual: null, mean_seconds: {}, waiting: 0, held: 1, most: null, routes: [] })),
            events: [{ time: "", seconds_ago: 200, subject: app(0), text: text("reload, generation 7") }],
        },
        status: {
            version: text("0.1.0"), pid: 4117, started: "2027-01-01T00:00:00.000Z", uptime_seconds: 1000, ready: true, generation: 1, open_connections: 5, maintenance: [],
            apps: each(apps, (at) => ({ name: app(at), about: null, failed: at === 1 ? text("worker 1 exited") : null, server: null, generation: 1,
                workers: { serving: 2, target: 2 }, queue: at % 3, waiting_requests: each(at % 3, (one) => ({ request_id: text(`waiting${at}.${one}`), method: text("GET"), path: text("/queue/me"), route: text("/queue/*"), seconds: one })),
                requests: requests(), recycles: {}, deaths: {},
                last_death: { worker: 1, kind: "exit", reason: text("exited with status 1"), seconds_ago: 5 } })),
            workers: each(workers, (at) => ({ app: app(at % apps), number: 1 + Math.floor(at / apps), pid: 1000 + at, generation: 1, state: text("ready"), state_seconds: 5,
                age_seconds: 50, requests: 5, restarts: 0, memory: { own_bytes: 4e7 + at, shared_bytes: 1e7 }, recycle_reason: at === 2 ? text("age") : null,
                active_requests: at % 4 ? [] : [{ request_id: text(`id${at}`), method: text("GET"), path: text("/route/one"), responding: at % 8 === 0, route: text("/route/*"), seconds: at / 100 }] })),
            processes: [],
            upstreams: each(upstreams, (at) => ({ name: text(`upstream${at}`), breaker: "closed", in_flight: 1, queue: 0, lookup_failure: null, endpoint_count: 100, active_calls: each(at === 0 ? 1 : 0, (one) => ({ request_id: text(`call${one}`), method: text("GET"), path: text("/search"), route: null, seconds: 0.2, phase: text("upstream"), endpoint: text("10.0.0.0:443") })),
                endpoints: each(Math.min(100, endpoints - at * 100), (one) => ({ name: text(`10.0.${at}.${one}:443`), state: text("up"), healthy: true, check_failure: null,
                    breaker: "closed", ejected: false, weight: 1, priority: 0, in_flight: 1, calls: requests(), reused: 5, dialled: 1, p50_seconds: 0.001, p99_seconds: 0.01,
                    connections: { idle: 1, in_use: 1, dialling: 0, waiting: 0 }, handshakes: { full: 1, resumed: 0, failed: 0, avoided: 5, certificate_bytes_avoided: 1 },
                    last_failure: { cause: text("reset"), sentence: text("upstream closed it"), seconds_ago: 5 } })) })),
            listeners: [{ name: text("main"), addresses: [text("http://127.0.0.1:80")], open_connections: 1, accepted_connections: 2, received_bytes: 3, sent_bytes: 4, handshakes: {} }],
            certificates: [{ listener: text("main"), names: [text("shop.example")], issuer: text("R3"), not_before: "", expires: text("2027-01-02T00:00:00Z"),
                             expires_in_seconds: 5e5, source: text("/etc/ssl/shop.pem"), error: text("cannot read it"), acme: null }],
            certificates_on_demand: null,
        },
    };
};
globalThis.change = (snapshot) => {
    const { status } = snapshot;
    snapshot.time = new Date(Date.parse(snapshot.time) + 1000).toISOString();
    status.uptime_seconds += 1;
    status.generation += 1;
    for (const one of [...snapshot.routes, ...status.apps]) one.requests.total += 1 + status.generation % 7;
    snapshot.now.p99_seconds = 0.05 + 0.01 * (status.generation % 5);
    for (const one of snapshot.why.apps) one.now.per_second = (status.generation * 7 + one.name.length) % 50;
    for (const one of status.workers) { one.requests += 1; one.age_seconds += 1; one.memory.own_bytes += 4096 * (status.generation % 3 - 1); }
    for (const one of status.upstreams) for (const endpoint of one.endpoints) endpoint.calls.total += 1;
};
"""

LISTS = ["apps", "workers", "requests", "recent", "routes", "upstreams", "listeners", "certificates"]


class Seen:
    """What the browser reported beside the document: nothing, where all is well."""

    def __init__(self, page, *scripts):
        self.page = page
        page.command("Log.enable")
        for script in (LOOK, *scripts):
            page.command("Page.addScriptToEvaluateOnNewDocument", source=script)

    def complaints(self):
        of_page = [e for e in self.page.browser.events if e.get("sessionId") == self.page.session]
        logged = [e["params"]["entry"]["text"] for e in of_page if e["method"] == "Log.entryAdded"]
        printed = [e["params"]["args"] for e in of_page if e["method"] == "Runtime.consoleAPICalled"]
        thrown = [e["params"]["exceptionDetails"] for e in of_page if e["method"] == "Runtime.exceptionThrown"]
        return {"complaints": [*logged, *printed, *thrown], "violations": self.page.run("return violations")}


def opened(page, address, *scripts):
    seen = Seen(page, *scripts)
    error = page.open(f"http://{address}/")
    if error:
        raise SystemExit(f"{address}: {error}")
    return seen


def overview(page, address):
    """What is first seen, and each list."""
    seen = opened(page, address)
    page.run('await until(isShown, "the first snapshot")')
    document = next(each for each in page.responses() if each["url"] == f"http://{address}/")
    result = page.run("""
        await until(() => !$("#verdict .healthy").hidden && rows().length > 0, "a verdict and a row");
        const lists = {};
        for (const tab of document.querySelectorAll("[role=tab]")) {
            tab.click();
            lists[tab.textContent] = { headings: texts("#headings th"), rows: rows() };
        }
        const [navigation] = performance.getEntriesByType("navigation");
        return { title: document.title, about: $("#about").textContent, verdict: $("#verdict").innerText, announcement: $("#announcement").textContent, lists,
                 charts: [...document.querySelectorAll("#charts svg")].map((each) => each.getAttribute("aria-label")), apps: texts("#app option"),
                 loaded: navigation.loadEventEnd, resources: performance.getEntriesByType("resource").map((each) => new URL(each.name).origin === location.origin),
                 address: location.href }""")  # fmt: skip
    return {"headers": {name.lower(): value for name, value in document["headers"].items()}, **result, **seen.complaints()}


def verdict(page, address, *screenshots):
    """An incident that the test causes: the cause, and the worker that is held."""
    seen = opened(page, address)
    result = page.run("""
        await until(() => $("#verdict .fault"), "a verdict");
        $("#verdict .fault summary").click();
        $("#tab-requests").click();
        const requests = rows();
        $("#tab-workers").click();
        const workers = rows();
        await until(() => rows()[0][3].endsWith("s") && rows()[0][3] !== workers[0][3], "a later snapshot");
        const isOpen = $("#verdict details").open;
        $("#rows button").click();
        const dialog = $("#worker").open && $("#worker").innerText;
        return { verdict: $("#verdict .fault").innerText, isOpen, requests, workers, later: rows(), dialog, title: document.title, announcement: $("#announcement").textContent }""")
    result.update(seen.complaints())
    if screenshots:
        page.run('$("#worker").close()')
        take(page, pathlib.Path(screenshots[0]))
    return result


def recent(page, address, count):
    """The slow and failed requests, and where the time of one went; without a pointer."""
    seen = opened(page, address)
    page.run('await until(isShown, "a snapshot"); $("#tab-recent").click(); await until(() => rows().length === Number(arguments[0]), "the requests")', count)
    result = {"rows": page.run("return rows()"), "bars": page.run('return [...document.querySelectorAll("#rows tr")].map((row) => row.querySelectorAll("rect").length)')}
    dialogs = []
    for at in range(int(count)):
        page.run('document.querySelectorAll("#rows button")[arguments[0]].focus()', at)
        press(page, "Enter")
        dialogs.append(page.run("""
            const lines = [...document.querySelectorAll("#recent-lines li")].map((line) => [line.firstChild.textContent, line.querySelector("b").textContent, line.querySelector(".meaning").textContent]);
            const bars = [...document.querySelectorAll("#recent-lines rect")].map((bar) => [bar.getAttribute("class"), Number(bar.getAttribute("x")), Number(bar.getAttribute("width"))]);
            return { isOpen: $("#recent").open, name: $("#recent-name").textContent, facts: $("#recent-facts").innerText, lines, bars, focus: document.activeElement.textContent }"""))  # fmt: skip
        press(page, "Escape")
    result["closed"] = page.run('return [$("#recent").open, document.activeElement.textContent]')
    return {**result, "dialogs": dialogs, **seen.complaints()}


def hostile(page, address):
    """Every text of a snapshot is an attack."""
    seen = opened(page, address, FAKE, SNAPSHOT)
    return {**page.run("""
        globalThis.attacked = [];
        const attack = "<img src=x onerror=attacked.push(1)><script>attacked.push(2)</script>\\u0000\\u001b[2J\\u202e\\u2066\\ud800\\"'&lt;";
        const snapshot = makeSnapshot(3, 6, 3, (name) => name + attack);
        const strings = (value) => typeof value === "string" ? 1 : value && typeof value === "object" ? Object.values(value).reduce((sum, each) => sum + strings(each), 0) : 0;
        await push(snapshot);
        const elements = [], shown = [];
        const look = () => { elements.push(document.querySelectorAll("body img, body script").length); shown.push(document.body.innerText); };
        for (const tab of document.querySelectorAll("[role=tab]")) { tab.click(); look(); }
        document.querySelectorAll("#verdict summary").forEach((each) => each.click());
        $("#verdict button").click();
        const chosen = $("#app").value.toWellFormed();
        $("#tab-workers").click();
        const workers = rows().length;
        $("#rows button").click();
        look();
        $("#worker").close();
        $("#tab-recent").click();
        $("#rows button").click();
        look();
        $("#recent").close();
        change(snapshot);
        await push(snapshot);
        look();
        return { attacked, elements, shown, chosen, workers, strings: strings(snapshot), attributes: [...document.querySelectorAll("body *")].flatMap((each) => [...each.attributes]).filter(({ name }) => name.startsWith("on")).length }
    """), **seen.complaints()}  # fmt: skip


def token(page, address, right):
    """The page asks for the token, and keeps it over a reload and nowhere else."""
    seen = opened(page, address)
    enter = 'const [token] = arguments; $("#token-text").value = token; $("#token button").click();'
    result = {
        "first": page.run('await until(() => !$("#token").hidden, "the form"); return { why: $("#token-why").textContent, focus: document.activeElement.id, shown: !$("#shown").hidden }'),
        "empty": page.run('$("#token button").click(); return $("#token").hidden'),
        "odd": page.run(enter + ' return $("#token-why").textContent', "tökén"),
        "wrong": page.run(enter + ' return await until(() => $("#token-why").textContent.includes("not accepted") && $("#token-why").textContent, "a refusal")', "wrong-0123456789abcdef"),
        "right": page.run(enter + ' await until(isShown, "a snapshot"); return $("#token").hidden', right),
    }
    page.browser.events.clear()
    page.command("Page.reload")
    page.wait_for("Page.loadEventFired")
    result["reloaded"] = page.run('await until(isShown, "a snapshot after the reload"); return { asked: !$("#token").hidden, url: location.href, local: localStorage.length, cookies: document.cookie, html: document.documentElement.outerHTML }')
    violations = seen.complaints()["violations"]
    other = Page(page.browser)
    opened(other, address)
    result["other"] = other.run('return await until(() => !$("#token").hidden, "another tab asks")')
    return {**result, "violations": violations}


def linked(page, address, elsewhere):
    """From a page of another site: a link leads to the page; a frame around it, and its data, stay empty."""
    seen = Seen(page)
    page.open(elsewhere)
    taken = page.run("""
        const frame = document.createElement("iframe");
        frame.src = arguments[0];
        const loaded = new Promise((done) => { frame.onload = done; });
        document.body.append(frame);
        await loaded;
        let isReadable = false;
        try { isReadable = frame.contentDocument !== null && frame.contentDocument.querySelector("#shown") !== null; } catch {}
        const fetched = (path, options) => fetch(arguments[0] + path, options).then((response) => response.status, () => "failed");
        return { isReadable, status: await fetched("status"), opaque: await fetched("status", { mode: "no-cors" }),
                 reload: await fetched("reload", { method: "POST", mode: "no-cors" }) };
    """, f"http://{address}/")  # fmt: skip
    framed = [each["status"] for each in page.responses() if each["url"] == f"http://{address}/"]
    page.browser.events.clear()
    page.run("const link = document.createElement('a'); link.href = arguments[0]; document.body.append(link); link.click()", f"http://{address}/")
    page.wait_for("Page.loadEventFired")
    shown = page.run('await until(isShown, "a snapshot"); return document.referrer')
    page.browser.events.clear()
    page.command("Page.reload")
    page.wait_for("Page.loadEventFired")
    page.run('await until(isShown, "a snapshot after a reload of the page")')
    return {"taken": taken, "framed": framed, "referrer": shown, **seen.complaints()}


def stack(page, address, token):
    """A worker's stack at a click: the page asks for the token, of which it had no need before."""
    opened(page, address)
    enter = '$("#token-text").value = arguments[0]; $("#token button").click();'
    page.run('await until(isShown, "a snapshot"); $("#tab-workers").click(); $("#rows button").click(); $("#stack-button").click()')
    return {
        "asked": page.run('await until(() => !$("#token").hidden, "the form"); return { why: $("#token-why").textContent, dialog: $("#worker").open, shown: !$("#shown").hidden }'),
        # The form stays while snapshots come.
        "wrong": page.run(f'{enter} await until(() => $("#token-why").textContent.includes("not accepted"), "a refusal"); const about = $("#about").textContent; await until(() => $("#about").textContent !== about, "another snapshot"); return $("#token").hidden', "wrong-0123456789abcdef"),
        "stack": page.run(f'{enter} await until(() => !$("#stack-text").hidden, "a stack"); return $("#stack-text").textContent', token),
        "form": page.run('return !$("#token").hidden'),
        "again": page.run('$("#worker").close(); $("#rows button").click(); const isEmpty = $("#stack-text").hidden; $("#stack-button").click(); await until(() => !$("#stack-text").hidden, "a stack"); return isEmpty'),
    }


def recycle(page, address, token):
    """Asks first; then the token; then another process has the worker's name."""
    opened(page, address)
    pid = 'rows().find((row) => row[0] === arguments[0])?.[8]'
    worker = page.run('await until(isShown, "a snapshot"); $("#tab-workers").click(); return rows()[0][0]')
    before = page.run(f'return {pid}', worker)
    asked = page.run('$("#rows button").click(); $("#recycle-button").click(); return [!$("#recycle-confirm").hidden, document.activeElement.textContent]')
    press(page, "Enter")
    refused = page.run('return [$("#recycle-confirm").hidden, document.activeElement.textContent]')
    page.run('$("#recycle-button").click(); $("#recycle-yes").click(); await until(() => !$("#token").hidden, "the form")')
    outcome = page.run('$("#token-text").value = arguments[0]; $("#token button").click(); await until(() => !$("#recycle-outcome").hidden, "an outcome"); return $("#recycle-outcome").textContent', token)
    after = page.run(f'$("#worker").close(); const pid = () => {pid}; return await until(() => rows().filter((row) => row[0] === arguments[0]).length === 1 && pid() !== arguments[1] && pid() !== "-" && pid(), "another process")', worker, before)
    return {"worker": worker, "before": before, "asked": asked, "refused": refused, "outcome": outcome, "after": after}


def drain(page, address, token):
    """Asks first; then the token; then the endpoint is drained, and put back."""
    opened(page, address)
    state = 'const state = () => rows()[0][2];'
    page.run('await until(isShown, "a snapshot"); $("#tab-upstreams").click()')
    asked = page.run('$("#rows button").click(); $("#drain-button").click(); return [!$("#drain-confirm").hidden, document.activeElement.textContent]')
    press(page, "Enter")
    refused = page.run('return [$("#drain-confirm").hidden, document.activeElement.textContent]')
    page.run('$("#drain-button").click(); $("#drain-yes").click(); await until(() => !$("#token").hidden, "the form")')
    outcome = page.run('$("#token-text").value = arguments[0]; $("#token button").click(); await until(() => !$("#drain-outcome").hidden, "an outcome"); return $("#drain-outcome").textContent', token)
    drained = page.run(f'{state} return [await until(() => state() !== "up" && state(), "another state"), $("#drain-button").textContent, $("#endpoint-name").textContent]')
    # No question: nothing can be lost by it.
    ready = page.run(f'{state} $("#drain-button").click(); return [await until(() => state() === "up" && state(), "the first state"), $("#drain-button").textContent, $("#drain-outcome").textContent]')
    return {"asked": asked, "refused": refused, "outcome": outcome, "drained": drained, "ready": ready}


def reload(page, address, token, configuration):
    """Asks first; then the token; then the outcome, of a good and of a broken configuration."""
    opened(page, address)
    file = pathlib.Path(configuration)
    generation = 'const generation = () => Number($("#about").textContent.split("generation ")[1]);'
    outcome = 'await until(() => !$("#reload-outcome").hidden, "an outcome"); return $("#reload-outcome").textContent'
    result = {
        "first": page.run(f'await until(isShown, "a snapshot"); {generation} $("#reload-button").click(); return [$("#reload").open, document.activeElement.textContent, generation()]'),
    }
    press(page, "Escape")
    result["cancelled"] = page.run(f'{generation} const about = $("#about").textContent; await until(() => $("#about").textContent !== about, "another snapshot"); return [$("#reload").open, generation()]')
    result["asked"] = page.run('$("#reload-button").click(); $("#reload-confirm").click(); await until(() => !$("#token").hidden, "the form"); return [$("#reload").open, $("#shown").hidden]')
    result["done"] = page.run(f'$("#token-text").value = arguments[0]; $("#token button").click(); {outcome}', token)
    result["after"] = page.run(f'{generation} return await until(() => generation() > 1 && generation(), "the next generation")')
    text = file.read_text()
    file.write_text(text + "\n[app.<img src=x onerror=alert(1)>]\n")
    result["broken"] = page.run(f'$("#reload-confirm").click(); await until(() => $("#reload-outcome").textContent.includes("failed"), "a failure"); {outcome}')
    file.write_text(text)
    result["images"] = page.run('return document.querySelectorAll("img").length')
    return result


def refused(page, address):
    """Without a token in the configuration there is no stack."""
    opened(page, address)
    return page.run('await until(isShown, "a snapshot"); $("#tab-workers").click(); $("#rows button").click(); $("#stack-button").click(); return await until(() => !$("#stack-error").hidden && $("#stack-error").textContent, "an error")')


def narrow(page, address):
    """A telephone: nothing is wider than it."""
    page.command("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
    seen = opened(page, address, FAKE, SNAPSHOT)
    return {**page.run("""
        const long = "x".repeat(120);
        await push(makeSnapshot(3, 60, 3, (name) => name + long));
        const widths = {};
        for (const tab of document.querySelectorAll("[role=tab]")) {
            tab.click();
            widths[tab.textContent] = [document.documentElement.scrollWidth, Math.ceil(Math.max(...[...document.querySelectorAll("#shown *")].map((each) => each.getBoundingClientRect().right)))];
        }
        $("#tab-recent").click();
        [...document.querySelectorAll("#rows button")].at(-1).click();
        widths.recent = [$("#recent").scrollWidth - $("#recent").clientWidth, Math.ceil($("#recent").getBoundingClientRect().right)];
        $("#recent").close();
        $("#help-button").click();
        widths.help = [$("#help").scrollWidth - $("#help").clientWidth, Math.ceil($("#help").getBoundingClientRect().right)];
        return { width: innerWidth, widths };
    """), **seen.complaints()}  # fmt: skip


def accessible(page, address):
    """What a screen reader is given, of the wide and of the narrow page."""
    opened(page, address, FAKE, SNAPSHOT)
    page.run('await push(makeSnapshot(3, 6, 3)); $("#tab-workers").click(); [...document.querySelectorAll("#headings button")].find((each) => each.textContent === "OWN").click()')
    trees = {}
    for name, width in (("wide", 1280), ("narrow", 360)):
        page.command("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=1, mobile=width < 400)
        page.run("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        nodes = [node for node in page.command("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
        by_role = {}
        for node in nodes:
            by_role.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        trees[name] = by_role
    unnamed = page.run('return [...document.querySelectorAll("button, input, select")].filter((each) => !each.textContent && !each.labels?.length).map((each) => each.outerHTML)')
    levels = page.run('return [...document.querySelectorAll("h1, h2, h3, h4")].map((each) => Number(each.tagName[1]))')
    return {"trees": trees, "unnamed": unnamed, "levels": levels, "sorted": page.run('return document.querySelector("[aria-sort]").textContent')}


def press(page, key, text=None):
    """A key, as a keyboard sends it."""
    codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Tab": 9}
    about = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
    if text is None and len(key) == 1:
        text = key
    if key == "Enter":
        text = "\r"
    page.command("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **about, **({"text": text} if text else {}))
    page.command("Input.dispatchKeyEvent", type="keyUp", **about)


def keyboard(page, address):
    """Everything without a pointer."""
    seen = opened(page, address, FAKE, SNAPSHOT)
    page.run("globalThis.snapshot = makeSnapshot(12, 120, 250); for (const at of [1, 2, 3]) { await push(snapshot); change(snapshot); }")
    result = {}

    def now(name, script):
        result[name] = page.run(f"return {script}")

    press(page, "2")
    now("second list", '[$("[aria-selected=true]").textContent, rows().length, $("#count").textContent, location.hash]')
    page.run('$("#tab-workers").focus()')
    press(page, "ArrowRight")
    now("next tab", '[$("[aria-selected=true]").textContent, document.activeElement.textContent]')
    press(page, "ArrowLeft")
    press(page, "End")
    now("last tab", '$("[aria-selected=true]").textContent')
    press(page, "2")
    press(page, "/")
    now("filter has the focus", "document.activeElement.id")
    for letter in "APP11/":
        press(page, letter)
    now("filtered", '[rows().map((row) => row[0]), $("[aria-selected=true]").textContent]')
    press(page, "Escape")
    now("filter removed", '[$("#filter").value, rows().length]')
    page.run('$("#next").focus()')
    press(page, "Enter")
    press(page, "Enter")
    now("last page", '[$("#count").textContent, rows().length, document.activeElement.id, $("#next").getAttribute("aria-disabled")]')
    page.run('[...document.querySelectorAll("#headings button")].find((each) => each.textContent === "PID").focus()')
    for name in ("sorted", "reversed", "as configured"):
        press(page, "Enter")
        now(name, '[rows()[0][8], document.activeElement.textContent, $("#headings [aria-sort]")?.getAttribute("aria-sort") ?? null, $("#count").textContent]')
    page.run('$("#filter").value = "app3/"; $("#filter").dispatchEvent(new Event("input")); $("#rows tr:nth-child(4) button").focus(); globalThis.focused = document.activeElement; snapshot.status.workers.reverse(); await push(snapshot); change(snapshot)')
    now("focus stays with its row", '[document.activeElement === focused, focused.textContent, rows().findIndex((row) => row[0] === focused.textContent)]')
    page.run("snapshot.status.workers.reverse(); await push(snapshot); change(snapshot)")
    now("also when its row moves", "[document.activeElement === focused, focused.textContent, rows().findIndex((row) => row[0] === focused.textContent)]")
    press(page, "Enter")
    now("worker", '[$("#worker").open, $("#worker-name").textContent]')
    press(page, "Escape")
    now("closed", '[$("#worker").open, document.activeElement === focused]')
    press(page, "?")
    now("help", '[$("#help").open, $("#help").innerText.includes("requests that wait for a worker")]')
    press(page, "Escape")
    explained = '[$("#help").open, document.activeElement.textContent, document.activeElement.nextSibling.textContent]'
    for name, focus in (
        ("column explained", '[...document.querySelectorAll("#headings button")].find((each) => each.textContent === "OWN").focus()'),
        ("chart explained", '$("#charts figure:nth-child(3)").focus()'),
    ):
        page.run(focus)
        press(page, "?")
        now(name, explained)
        press(page, "Escape")
    page.run('[...$("#rows tr").cells].find((cell) => cell.dataset.column === "AGE").click()')
    now("number explained", explained)
    press(page, "Escape")
    page.run('$("#charts figcaption button").click()')
    now("title explained", explained)
    press(page, "Escape")
    page.run('$("#charts figure").focus()')
    press(page, "ArrowLeft")
    now("a second before", '[$("#moment").textContent, texts("#charts b")[0]]')
    press(page, "Escape")
    now("now", '[$("#moment").textContent, texts("#charts b")[0]]')
    now("no focus is lost in rows", '[...document.querySelectorAll("button, input, select, [tabindex]")].every((each) => each.tabIndex >= -1)')
    return {**result, **seen.complaints()}


def lost(page, address, pid):
    """A process that stands still, one that is replaced, and one that has gone: said, and connected again."""
    process = int(pid)
    opened(page, address)
    page.run('await until(isShown, "a snapshot")')
    outage = 'return await until(() => !$("#outage").hidden && $("#outage").textContent.includes(arguments[0]) && [$("#outage").textContent, $("#announcement").textContent], arguments[0])'
    over = 'await until(() => $("#outage").hidden, "connected again"); return $("#about").textContent'
    result = {}
    os.kill(process, signal.SIGSTOP)
    try:
        result["silent"] = page.run(outage, "does not respond")
    finally:
        os.kill(process, signal.SIGCONT)
    result["awake"] = page.run(over)
    os.kill(process, signal.SIGUSR2)
    result["replaced"] = page.run('return await until(() => !$("#about").textContent.includes(`process ${arguments[0]} `) && $("#about").textContent, "the new process")', process)
    result["over"] = page.run(over)
    successor = int(result["replaced"].split("process ")[1].split()[0])
    os.kill(successor, signal.SIGTERM)
    result["gone"] = page.run(outage, "no connection")
    return result


def many(page, address, apps, workers, endpoints, snapshots):
    """Many rows are drawn in time, and many snapshots leave nothing behind."""
    seen = opened(page, address, FAKE, SNAPSHOT)
    page.run("globalThis.snapshot = makeSnapshot(...arguments); await push(snapshot)", int(apps), int(workers), int(endpoints))
    drawn = {}
    for name in LISTS:
        drawn[name] = page.run("""
            $(`#tab-${arguments[0]}`).click();
            const times = [];
            for (let at = 0; at < 5; at++) {
                change(snapshot);
                const text = JSON.stringify(snapshot);
                const begin = performance.now();
                await pushText(text);
                await until(() => $("#about").textContent.endsWith(`generation ${snapshot.status.generation}`), "drawn");
                times.push(performance.now() - begin);
            }
            return { milliseconds: times.toSorted((a, b) => a - b)[2], rows: rows().length, count: $("#count").textContent }""", name)  # fmt: skip
    bytes_each = page.run("return JSON.stringify(snapshot).length")
    feed = """
        const [count, lists] = arguments;
        for (let at = 0; at < count; at++) {
            if (at % 10 === 0) $(`#tab-${lists[at / 10 % lists.length]}`).click();
            if (at % 25 === 0) { $("#app").value = at % 50 ? "app1" : ""; $("#app").dispatchEvent(new Event("change")); }
            change(snapshot);
            await push(snapshot);
        }"""
    measured = []
    # The history of the charts is full before the first measurement.
    for count in (320, int(snapshots)) if int(snapshots) > 0 else ():
        page.run(feed, count, LISTS)
        page.command("HeapProfiler.collectGarbage")
        page.command("HeapProfiler.collectGarbage")
        page.command("Performance.enable")
        metrics = {each["name"]: each["value"] for each in page.command("Performance.getMetrics")["metrics"]}
        measured.append({"heap": metrics["JSHeapUsedSize"], "nodes": metrics["Nodes"], "listeners": metrics["JSEventListeners"]})
    before, after = measured or (None, None)
    return {"drawn": drawn, "bytes": bytes_each, "before": before, "after": after, **seen.complaints()}


def pictures(page, address, directory):
    """For people to look at."""
    folder = pathlib.Path(directory)
    folder.mkdir(exist_ok=True)
    opened(page, address, FAKE, SNAPSHOT)
    page.run("""globalThis.snapshot = makeSnapshot(8, 60, 30);
        for (let at = 0; at < 280; at++) {
            change(snapshot);
            const wave = Math.sin(at / 20);
            for (const one of [...snapshot.routes, ...snapshot.status.apps]) { one.requests.total += Math.round(12 + 8 * wave); if (at % 60 > 52) one.requests["5xx"] += 1; }
            Object.assign(snapshot.now, { p50_seconds: 0.011 + 0.004 * wave, p90_seconds: 0.03 + 0.01 * wave, p99_seconds: 0.08 + 0.05 * Math.max(0, wave) });
            snapshot.status.apps.forEach((app, number) => { app.queue = Math.max(0, Math.round(4 * wave - number)); });
            await pushText(JSON.stringify(snapshot));
        }
        await push(snapshot);""")
    take(page, folder)
    return {}


def take(page, folder):
    folder.mkdir(exist_ok=True)
    page.command("Emulation.setScrollbarsHidden", hidden=True)
    for scheme in ("light", "dark"):
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for size, width in (("wide", 1280), ("phone", 360)):
            page.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1 if width > 400 else 2, mobile=width < 400)
            for name, button in (("apps", None), ("workers", None), ("recent", None), ("upstreams", None), ("recent", 2), ("upstreams", 0)):
                page.run("""
                    const [name, button] = arguments;
                    $(`#tab-${name}`).click();
                    if (button !== null) document.querySelectorAll("#rows button")[button]?.click();
                    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))""", name, button)  # fmt: skip
                clip = {"clip": {"x": 0, "y": 0, "width": width, "height": 1800, "scale": 1}, "captureBeyondViewport": True} if button is None else {}
                data = page.command("Page.captureScreenshot", **clip)["data"]
                (folder / f"{scheme}-{size}-{name}{'' if button is None else '-dialog'}.png").write_bytes(base64.b64decode(data))
                page.run('document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close())')


SCENARIOS = {scenario.__name__: scenario for scenario in (overview, verdict, recent, hostile, linked, token, stack, recycle, drain, reload, refused, narrow, accessible, keyboard, lost, many, pictures)}


def main():
    scenario, address, directory, *arguments = sys.argv[1:]
    home = pathlib.Path(directory)
    home.mkdir()
    with Browser(home, None, address.partition(":")[0]) as browser:
        print(json.dumps(SCENARIOS[scenario](Page(browser), address, *arguments)))


if __name__ == "__main__":
    main()
