// The lists: their columns, and their rows of a snapshot. The same as those of `keepwarm top` (top/lists.rs).
//
// A row is { key, cells, app, open }; a cell is { text, number, color, bar }. Numbers are sorted by `number`, the largest first;
// other cells by their text. `app`: shown for this app; without one, for all.

import { joined, rate, share, signedSize, size, time, words } from "./format.js";
import { RECENT } from "./timeline.js";

const WINDOW = "of the last 10 s";
/** Of a column of numbers. */
const NUMBER = true;

export const LISTS = [
  {
    id: "apps",
    title: "Apps",
    columns: [
      ["APP", "name in the configuration; choose it to see this app only"],
      ["WORKERS", "workers that are ready, and the target number"],
      ["QUEUE", "requests that wait for a worker", NUMBER],
      ["REQ/S", `requests that ended, per second, ${WINDOW}`, NUMBER],
      ["P50", `half of the requests ${WINDOW} took no longer`, NUMBER],
      ["P99", `99 of 100 requests ${WINDOW} took no longer`, NUMBER],
      ["5XX", `share of the requests ${WINDOW} with a 5xx`, NUMBER],
      ["HELD", "requests at workers", NUMBER],
      ["REQUESTS", "completed requests since the start", NUMBER],
      ["LAST", "how the latest worker died, or why Keepwarm gave up on the app"],
    ],
    rows: (snapshot) => {
      const why = new Map(snapshot.why.apps.map((app) => [app.name, app]));
      return snapshot.status.apps.map((app) => appRow(app, why.get(app.name)));
    },
  },
  {
    id: "workers",
    title: "Workers",
    columns: [
      ["WORKER", "app and slot; choose it to see its requests and its stack"],
      ["STATE", "starting, ready, draining, stopping or dead; leaves (REASON): it will be replaced"],
      ["DOING", "its oldest request, by method and pattern of the route, and how many more it holds"],
      ["FOR", "how long the worker has had that request", NUMBER],
      ["OWN", "resident memory of its own, which max_memory counts", NUMBER],
      ["1 MIN", "change of OWN in the last minute", NUMBER],
      ["REQUESTS", "requests given to it so far", NUMBER],
      ["AGE", "time since its start", NUMBER],
      ["PID", "process id", NUMBER],
    ],
    rows: (snapshot) => {
      const changes = new Map(snapshot.memory.map((one) => [one.pid, one.change_bytes]));
      return snapshot.status.workers.map((worker) => workerRow(worker, changes.get(worker.pid)));
    },
  },
  {
    id: "requests",
    title: "Requests",
    firstOrder: 3,
    columns: [
      ["REQUEST", "id, as in the logs"],
      ["DOING", "its method and its path as the app gets it, without the query"],
      ["PHASE", "queue (waits for a worker or an upstream), waits (at a worker, behind another), app, connect, upstream (waits for its response), or responds (has begun)"],
      ["FOR", "how long the worker has worked on it, it has been in the queue of the app, or the call to the upstream lasts", NUMBER],
      ["HELD BY", "worker, app in whose queue it is (the first 20), or upstream (the 20 oldest; also calls through doors)"],
      ["ROUTE", "pattern of its route; -: a call through a door"],
    ],
    rows: ({ status }) => [
      ...status.workers.flatMap((worker) => worker.active_requests.map((request) => requestRow(request, worker))),
      ...status.apps.flatMap((app) => app.waiting_requests.map((request) => waitingRow(request, app))),
      ...status.upstreams.flatMap((upstream) => upstream.active_calls.map((call) => callRow(call, upstream))),
    ],
  },
  RECENT,
  {
    id: "routes",
    title: "Routes",
    firstOrder: 1,
    columns: [
      ["ROUTE", "pattern in the configuration; -: requests without a route"],
      ["REQ/S", `requests that ended, per second, ${WINDOW}`, NUMBER],
      ["P99", `99 of 100 requests ${WINDOW} took no longer`, NUMBER],
      ["P90", `90 of 100 requests ${WINDOW} took no longer`, NUMBER],
      ["P50", `half of the requests ${WINDOW} took no longer`, NUMBER],
      ["5XX", `share of the requests ${WINDOW} with a 5xx`, NUMBER],
      ["REQUESTS", "completed requests since the start", NUMBER],
      ["APP", "app of the route; -: no app responds"],
    ],
    rows: (snapshot) => snapshot.routes.map(routeRow),
  },
  {
    id: "upstreams",
    title: "Upstreams",
    columns: [
      ["UPSTREAM", "name in the configuration; choose it to see its endpoint, and drain it"],
      ["ENDPOINT", "address; the first 100 of an upstream are shown"],
      ["STATE", "up, warming (slow start), half-open or open (breaker), ejected (outlier), drained (by an operator), down (health checks)"],
      ["IN FLIGHT", "calls in flight to it", NUMBER],
      ["P99", "99 of 100 calls since the start took no longer", NUMBER],
      ["P50", "half of the calls since the start took no longer", NUMBER],
      ["CALLS", "calls since the start", NUMBER],
      ["5XX", "calls since the start with a 5xx", NUMBER],
      ["IDLE/OPEN", "connections kept for the next call, and all open ones"],
      ["QUEUE", "calls of the upstream that wait for an in-flight slot", NUMBER],
      ["LAST FAILURE", "last failed attempt; the call may have succeeded on its second one"],
    ],
    rows: (snapshot) => snapshot.status.upstreams.flatMap(upstreamRows),
  },
  {
    id: "listeners",
    title: "Listeners",
    columns: [
      ["LISTENER", "name in the configuration"],
      ["OPEN", "connections open now", NUMBER],
      ["ACCEPTED", "connections accepted since the start", NUMBER],
      ["IN", "bytes from clients since the start", NUMBER],
      ["OUT", "bytes to clients since the start", NUMBER],
      ["ADDRESS", "addresses, with the real port"],
    ],
    rows: (snapshot) => snapshot.status.listeners.map(listenerRow),
  },
  {
    id: "certificates",
    title: "Certificates",
    columns: [
      ["CERTIFICATE", "host names and addresses it is for"],
      ["LEFT", "time until it expires", NUMBER],
      ["EXPIRES", "end of its validity"],
      ["LISTENER", "listener of the certificate"],
      ["ISSUER", "authority that signed it"],
      ["ERROR", "why a changed file of this listener is not used"],
    ],
    rows: (snapshot) => snapshot.status.certificates.map(certificateRow),
  },
];

const text = (shown, color) => ({ text: shown, color });
const name = (value) => text(words(value));
/** What is not known comes after all that is. */
const number = (value, show = words, color = undefined) => ({ text: show(value), number: typeof value === "number" ? value : -Infinity, color });
const failed = (part) => number(part, share, part > 0 ? "bad" : undefined);

function appRow(app, why) {
  const { serving, target } = app.workers;
  const color = app.failed !== null || (serving === 0 && target > 0) ? "bad" : serving < target ? "warn" : "good";
  const cells = [
    name(app.name),
    // A server that runs by itself has no workers.
    app.server === null ? text(`${serving}/${words(target)}`, color) : text("-", app.server.unreachable ? "bad" : "good"),
    number(app.queue),
    number(why?.now?.per_second, rate),
    number(why?.now?.p50_seconds, time),
    number(why?.now?.p99_seconds, time),
    failed(why?.now?.failed),
    number(why?.held),
    number(app.requests.total),
    text(app.failed === null ? words(app.last_death?.reason) : `given up: ${words(app.failed)}`),
  ];
  return { key: app.name, cells, app: app.name, open: { app: app.name } };
}

export function workerName(worker) {
  return `${words(worker.app)}/${words(worker.number)}`;
}

/** During a reload two workers have the same slot. */
const workerKey = (worker) => `${worker.app}/${worker.number}/${worker.generation}/${worker.pid}`;

export function stateOf(worker) {
  return worker.recycle_reason === null ? words(worker.state) : `${words(worker.state)}, leaves (${words(worker.recycle_reason)})`;
}

function workerRow(worker, change) {
  const { length, 0: oldest } = worker.active_requests;
  const color = { ready: "good", dead: "bad" }[worker.state] ?? "warn";
  const cells = [
    text(workerName(worker)),
    text(stateOf(worker), color),
    text(length === 0 ? "-" : `${words(oldest.method)} ${words(oldest.route)}${length > 1 ? ` (+${length - 1})` : ""}`),
    number(oldest?.seconds, time),
    number(worker.memory?.own_bytes, size),
    number(change, signedSize),
    number(worker.requests),
    number(worker.age_seconds, time),
    number(worker.pid),
  ];
  return { key: workerKey(worker), cells, app: worker.app, open: { worker: workerKey(worker) } };
}

/** The worker of a row's `open.worker`. */
export function findWorker(snapshot, key) {
  return snapshot.status.workers.find((worker) => workerKey(worker) === key);
}

function requestRow(request, worker) {
  const cells = requestCells(request, phaseOf(request), workerName(worker));
  return { key: request.request_id, cells, app: worker.app, open: { worker: workerKey(worker) } };
}

function waitingRow(request, app) {
  const cells = requestCells(request, "queue", words(app.name));
  // Not the row that it has at a worker later, which can be opened.
  return { key: `queue ${request.request_id}`, cells, app: app.name };
}

/** A request of a route to the upstream, or a call through one of its doors. */
function callRow(call, upstream) {
  const cells = requestCells(call, words(call.phase), words(upstream.name));
  const open = call.endpoint === null ? undefined : { endpoint: [upstream.name, call.endpoint] };
  return { key: `call ${call.request_id}`, cells, open };
}

function phaseOf({ seconds, responding }) {
  return seconds === null ? "waits" : responding ? "responds" : "app";
}

/** The method and the path; a request that is on its way to its worker has none for a moment. */
export function doingOf({ method, path, route }) {
  return `${words(method)} ${words(path ?? route)}`;
}

function requestCells(request, phase, place) {
  return [name(request.request_id), text(doingOf(request)), text(phase), number(request.seconds, time), text(place), name(request.route)];
}

function routeRow(route) {
  const { now } = route;
  const cells = [
    name(route.route),
    number(now?.per_second, rate),
    number(now?.p99_seconds, time),
    number(now?.p90_seconds, time),
    number(now?.p50_seconds, time),
    failed(now?.failed),
    number(route.requests.total),
    name(route.app),
  ];
  return { key: JSON.stringify([route.app, route.route]), cells, app: route.app };
}

/** A row for each endpoint; one without where there is none. */
function upstreamRows(upstream) {
  const endpoints = upstream.endpoints.length > 0 ? upstream.endpoints : [null];
  return endpoints.map((endpoint) => endpointRow(upstream, endpoint));
}

function endpointRow(upstream, endpoint) {
  const state = endpoint?.state ?? "no endpoint";
  const color = { up: "good", warming: "warn", "half-open": "warn", drained: "warn" }[state] ?? "bad";
  const { idle = 0, in_use: inUse = 0 } = endpoint?.connections ?? {};
  const cells = [
    name(upstream.name),
    name(endpoint?.name),
    text(words(state), color),
    number(endpoint?.in_flight),
    number(endpoint?.p99_seconds, time),
    number(endpoint?.p50_seconds, time),
    number(endpoint?.calls?.total),
    number(endpoint?.calls?.["5xx"]),
    text(`${idle}/${idle + inUse}`),
    number(upstream.queue),
    name(endpoint === null ? upstream.lookup_failure : endpoint.last_failure?.sentence),
  ];
  const key = JSON.stringify([upstream.name, endpoint?.name]);
  return endpoint === null ? { key, cells } : { key, cells, open: { endpoint: [upstream.name, endpoint.name] } };
}

/** The endpoint of a row's `open.endpoint`. */
export function findEndpoint(snapshot, [upstream, name]) {
  const found = snapshot.status.upstreams.find((one) => one.name === upstream);
  return found?.endpoints.find((endpoint) => endpoint.name === name);
}

function listenerRow(listener) {
  const cells = [
    name(listener.name),
    number(listener.open_connections),
    number(listener.accepted_connections),
    number(listener.received_bytes, size),
    number(listener.sent_bytes, size),
    text(joined(listener.addresses)),
  ];
  return { key: listener.name, cells };
}

// A certificate that ends sooner was not renewed: tools renew at a third of 90 days.
const SOON = 14 * 86400;

function certificateRow(certificate) {
  const left = certificate.expires_in_seconds;
  const color = left > SOON ? "good" : left > 0 ? "warn" : "bad";
  const cells = [
    text(joined(certificate.names)),
    number(left, (left) => (left > 0 ? time(left) : "expired"), color),
    text(words(certificate.expires).split("T")[0]),
    name(certificate.listener),
    name(certificate.issuer),
    name(certificate.error),
  ];
  return { key: JSON.stringify([certificate.listener, certificate.names, certificate.source]), cells };
}
