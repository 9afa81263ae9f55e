// The last slow and failed requests: a row each, with a bar of where the time went, and a dialog with all of it, one line for each part and call.

import { setText } from "./table.js";
import { time, words } from "./format.js";

const element = (id) => document.getElementById(id);
const NUMBER = true;

/** The parts of a request in their order: member, name, and what it is. */
const PARTS = [
  ["read_seconds", "read", "reading the request"],
  ["retry_seconds", "retry", "with workers that were lost or did not take it"],
  ["queue_seconds", "queue", "waiting for a worker"],
  ["app_seconds", "app", "in the worker, until the response began"],
  ["body_seconds", "body", "in the worker, until the response was complete"],
  ["write_seconds", "write", "sending the rest to the client"],
];

export const RECENT = {
  id: "recent",
  title: "Slow and failed",
  unsorted: "newest first",
  columns: [
    ["DOING", "its method and path, without the query; choose it to see where its time went"],
    ["WHAT", "slow or failed"],
    ["ENDED", "how long ago"],
    ["STATUS", "status that was sent; -: none"],
    ["REASON", "why it failed, as in the access log; -: the app chose the status"],
    ["TOOK", "from the first byte of the request to the last byte of the response", NUMBER],
    ["WHERE", "the part that took longest: read, retry (with workers that were lost), queue, app (until the response began), body (the rest of it) or write"],
    ["CALLS", "its calls to upstreams, as far as they are known to be its", NUMBER],
    ["WORKER", "worker that had it last; -: none"],
    ["ROUTE", "pattern of its route"],
  ],
  rows: (snapshot) => all(snapshot).map(recentRow),
};

/** Both lists as one, the newest first. */
function all({ recent }) {
  const marked = (requests, what) => requests.map((request) => ({ ...request, what }));
  return [...marked(recent.slow, "slow"), ...marked(recent.failed, "failed")].toSorted((a, b) => a.seconds_ago - b.seconds_ago);
}

const text = (shown, color) => ({ text: shown, color });

function recentRow(request) {
  const cells = [
    text(doing(request)),
    text(request.what, request.what === "failed" ? "bad" : "warn"),
    text(`${time(request.seconds_ago)} ago`),
    text(words(request.status)),
    text(words(request.reason)),
    { text: time(request.seconds), number: request.seconds },
    { text: longest(request), bar: barOf(request) },
    { text: request.call_count === 0 ? "-" : `${request.call_count}, ${time(request.call_seconds)}`, number: request.call_seconds },
    text(workerOf(request)),
    text(words(request.route)),
  ];
  return { key: request.id, cells, app: request.app ?? undefined, open: { recent: request.id } };
}

const doing = ({ method, path }) => (path === null ? "unreadable request" : `${words(method)} ${words(path)}`);
const workerOf = ({ app, worker }) => (worker === null ? "-" : `${words(app)}/${words(worker)}`);

function longest({ phases }) {
  if (phases === null) return "-";
  const [member, name] = PARTS.reduce((most, part) => (phases[part[0]] > phases[most[0]] ? part : most));
  return `${name} ${time(phases[member])}`;
}

/** Where each part begins and ends, from 0 to 1 of the request. */
function barOf({ phases, seconds }) {
  if (phases === null) return [];
  let end = 0;
  return PARTS.map(([member, name]) => {
    const begin = end;
    end += phases[member];
    return { name, begin: begin / seconds, end: end / seconds };
  });
}

/** One request: its facts, and a line for each part and each call. */
export class RecentDialog {
  #request = null;
  #drawn = null;
  #dialog = element("recent");

  open(id, snapshot) {
    this.#request = null;
    this.#drawn = null;
    this.#find(id, snapshot);
    // Newer ones have taken its place since the list was drawn.
    if (this.#request === null) return;
    this.#draw();
    this.#dialog.showModal();
  }

  /** Calls may end after their request. One that is in the list no more is shown as it was. */
  update(snapshot) {
    if (!this.#dialog.open) return;
    this.#find(this.#request.id, snapshot);
    this.#draw();
  }

  #find(id, snapshot) {
    this.#request = all(snapshot).find((request) => request.id === id) ?? this.#request;
  }

  #draw() {
    const request = this.#request;
    // Everything else about it has ended.
    const known = `${request.call_count} ${request.stacks.length}`;
    if (this.#drawn !== known) {
      this.#drawn = known;
      setText(element("recent-name"), doing(request));
      element("recent-facts").replaceChildren(...factsOf(request).flatMap(([name, ...facts]) => [titled("dt", name), ...facts.map((fact) => titled("dd", fact))]));
      element("recent-lines").replaceChildren(...linesOf(request).map(newLine));
      setText(element("recent-more"), more(request));
      element("recent-more").hidden = more(request) === "";
    }
  }
}

function factsOf(request) {
  const limit = `${time(request.seconds)}; slow from ${time(request.slow_seconds)} on`;
  return [
    ["Ended", words(request.time)],
    ["What", request.what],
    ["Status", request.status === null ? "none was sent" : words(request.status)],
    ["Reason", request.reason === null ? "-" : `${words(request.reason)} (keepwarm explain ${words(request.reason)})`],
    ["Took", limit],
    ["Route", words(request.route)],
    ["Worker", request.pid === null ? workerOf(request) : `${workerOf(request)}, process ${request.pid}`],
    ["Id", words(request.id)],
    ...(request.trace_id === null ? [] : [["Trace", words(request.trace_id)]]),
    ...(request.stacks.length === 0 ? [] : [["In the code", ...request.stacks.map(stackOf)]]),
  ];
}

/** Calls of a stack that are shown, the innermost. */
const CALLS = 4;

function stackOf({ calls, phase, seconds, waiting }) {
  const shown = calls.length > CALLS ? ["…", ...calls.slice(-CALLS)] : calls;
  return `${time(seconds)} ${waiting ? "waiting" : "computing"}${phase === "app" ? "" : ` (${words(phase)})`}: ${shown.map(words).join(" > ")}`;
}

/** The parts, and after the time in the app the calls. */
function linesOf(request) {
  const calls = request.calls.map((call) => callLine(call, request));
  if (request.phases === null) return calls;
  return barOf(request).flatMap((part, at) => {
    const [member, name, meaning] = PARTS[at];
    const line = { ...part, label: name, seconds: request.phases[member], from: part.begin * request.seconds, meaning };
    return name === "app" ? [line, ...calls] : [line];
  });
}

const CALL_PARTS = [["queue_seconds", "call-queue"], ["connect_seconds", "call-connect"], ["first_byte_seconds", "call"], ["body_seconds", "call-body"]];
const KNOWN_BY = {
  request_id: "known by the id of the request that it carries",
  trace: "known by the trace that it carries",
  time: "known by time: its worker had no other request",
  route: "the call of its route",
};

function callLine(call, request) {
  const at = (seconds) => Math.min(1, seconds / request.seconds);
  let end = call.start_seconds;
  const parts = CALL_PARTS.map(([member, name]) => {
    const begin = end;
    end += call[member] ?? (name === "call" ? call.seconds : 0);
    return { name, begin: at(begin), end: at(end) };
  });
  // A call may have failed first, and succeeded then.
  const hasFailed = call.failure !== null && !(call.status < 500 && call.status !== null);
  const outcome = hasFailed ? words(call.failure) : `status ${words(call.status)}${call.failure === null ? "" : ` after ${words(call.failure)}`}`;
  const waited = hasFailed || call.connect_seconds === null ? "" : `, connected in ${time(call.connect_seconds)}, first byte after ${time(call.first_byte_seconds)}`;
  const tried = call.attempts > 1 ? `, ${call.attempts} attempts` : "";
  return {
    label: `call to ${words(call.upstream)}`,
    parts,
    seconds: call.seconds,
    from: call.start_seconds,
    meaning: `${words(call.endpoint)}: ${outcome}${waited}${tried}; ${KNOWN_BY[call.known_by] ?? words(call.known_by)}`,
  };
}

function more({ calls, call_count: count, call_seconds: seconds }) {
  return count > calls.length ? `${count} calls in all, ${time(seconds)} together; the ${calls.length} longest are shown.` : "";
}

function newLine(line) {
  const place = document.createElement("li");
  const took = titled("b", time(line.seconds));
  const words = titled("span", `from ${time(line.from)}: ${line.meaning}`);
  words.className = "meaning";
  const bar = newBar();
  drawBar(bar, line.parts ?? [line]);
  place.append(titled("span", line.label), " ", took, " ", bar, " ", words);
  return place;
}

/** A bar says nothing that its text does not. */
export function newBar() {
  const bar = svg("svg");
  bar.setAttribute("class", "parts");
  bar.setAttribute("viewBox", "0 0 1000 10");
  bar.setAttribute("preserveAspectRatio", "none");
  bar.setAttribute("aria-hidden", "true");
  return bar;
}

/** What is too short to be seen is as wide as a line. */
const LEAST = 3;

export function drawBar(bar, parts) {
  const shown = parts.filter(({ begin, end }) => end > begin);
  bar.replaceChildren(...shown.map(({ name, begin, end }) => {
    const rectangle = svg("rect");
    const x = Math.min(1000 - LEAST, begin * 1000);
    rectangle.setAttribute("class", `part-${name}`);
    rectangle.setAttribute("x", x.toFixed(1));
    rectangle.setAttribute("width", Math.max(LEAST, Math.min(1000, end * 1000) - x).toFixed(1));
    rectangle.setAttribute("height", 10);
    return rectangle;
  }));
}

function svg(name) {
  return document.createElementNS("http://www.w3.org/2000/svg", name);
}

export function titled(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
