// What the charts show: one point for each snapshot, of all and of each app, for five minutes.

/** Points that are kept. An app costs 7 KB. */
export const POINTS = 300;
const FIELDS = ["rate", "p50", "p90", "p99", "queue", "errors"];
// A second snapshot that comes at once has counted too little for a rate.
const SHORTEST = 0.5;
/** The name of the series of all apps. No app has it: names are not empty. */
export const ALL = "";

export class History {
  #times = new Float64Array(POINTS).fill(NaN);
  #series = new Map();
  #count = 0;
  #before = null;

  /** Whether the snapshot became a point. */
  add(snapshot) {
    const { status } = snapshot;
    const before = this.#before;
    const isSameProcess = before !== null && before.pid === status.pid && before.started === status.started;
    const seconds = isSameProcess ? status.uptime_seconds - before.uptime : NaN;
    if (seconds < SHORTEST) return false;
    const at = this.#count++ % POINTS;
    this.#times[at] = Date.parse(snapshot.time) / 1000;
    const totals = new Map();
    for (const [name, figures, queue, counted, failed] of subjects(snapshot)) {
      const last = before?.totals.get(name);
      const perSecond = (now, then) => (last === undefined ? NaN : (now - then) / seconds);
      totals.set(name, [counted, failed]);
      this.#put(name, at, [
        perSecond(counted, last?.[0]),
        figures?.p50_seconds ?? NaN,
        figures?.p90_seconds ?? NaN,
        figures?.p99_seconds ?? NaN,
        queue,
        perSecond(failed, last?.[1]),
      ]);
    }
    for (const name of this.#series.keys()) if (!totals.has(name)) this.#series.delete(name);
    this.#before = { pid: status.pid, started: status.started, uptime: status.uptime_seconds, totals };
    return true;
  }

  /** The points of an app, the oldest first: `times`, and an array for each field. */
  of(name) {
    const length = Math.min(this.#count, POINTS);
    const first = this.#count - length;
    const ordered = (ring) => Array.from({ length }, (_, at) => ring[(first + at) % POINTS]);
    const series = this.#series.get(name) ?? emptySeries();
    return { times: ordered(this.#times), ...Object.fromEntries(FIELDS.map((field, at) => [field, ordered(series[at])])) };
  }

  #put(name, at, values) {
    let series = this.#series.get(name);
    if (series === undefined) this.#series.set(name, (series = emptySeries()));
    values.forEach((value, field) => (series[field][at] = value));
  }
}

function emptySeries() {
  return FIELDS.map(() => new Float32Array(POINTS).fill(NaN));
}

/** Name, figures of the last seconds, queue, requests and 5xx since the start: of all, then of each app. */
function* subjects({ now, routes, status, why }) {
  const sum = (list, value) => list.reduce((total, one) => total + value(one), 0);
  const queue = sum(status.apps, (app) => app.queue ?? 0);
  yield [ALL, now, queue, sum(routes, (route) => route.requests.total), sum(routes, (route) => route.requests["5xx"])];
  const figures = new Map(why.apps.map((app) => [app.name, app.now]));
  for (const app of status.apps) {
    yield [app.name, figures.get(app.name), app.queue ?? 0, app.requests.total, app.requests["5xx"]];
  }
}
