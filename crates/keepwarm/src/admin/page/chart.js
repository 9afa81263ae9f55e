// The charts of the last minutes, as SVG: its colors come from the style sheet, also when the system changes from light to dark.

import { POINTS } from "./history.js";
import { rate, time } from "./format.js";

const count = (value) => (Number.isInteger(value) ? String(value) : rate(value));
const WINDOW = "of the last 10 s";
export const CHARTS = [
  { title: "Requests per second", meaning: `requests that ended, ${WINDOW}`, unit: rate, axis: count, lines: [["rate", "requests"]], least: 1 },
  {
    title: "Duration",
    meaning: `p50: half of the requests ${WINDOW} took no longer; p90 and p99: 90 and 99 of 100`,
    unit: time,
    axis: time,
    lines: [["p50", "p50"], ["p90", "p90"], ["p99", "p99"]],
    least: 0.001,
  },
  { title: "Queue", meaning: "requests that wait for a worker", unit: count, axis: count, lines: [["queue", "waiting"]], least: 1 },
  { title: "Errors (5xx) per second", meaning: `requests that ended with a 5xx, ${WINDOW}`, unit: rate, axis: count, lines: [["errors", "5xx"]], least: 1 },
];
const HEIGHT = 120;
// Room for the numbers at the left and the times below.
const [LEFT, TOP, BOTTOM] = [46, 6, 18];
// Between two points that are further apart there was no stream.
const GAP = 3;

/** All charts, which show the same seconds, and the same one of them where the pointer or the keys choose one. */
export class Charts {
  #charts;
  #points = null;
  #onMoment;
  /** Seconds before the newest point. */
  #chosen = null;

  /** `onExplain` gets the place of a chart in `CHARTS`. */
  constructor(place, onMoment, onExplain) {
    this.#onMoment = onMoment;
    this.#charts = CHARTS.map((about, at) => new Chart(about, () => onExplain(at)));
    place.replaceChildren(...this.#charts.map((chart) => chart.figure));
    place.addEventListener("pointermove", (event) => this.#handlePointer(event));
    place.addEventListener("pointerleave", () => this.#choose(null));
    place.addEventListener("focusout", () => this.#choose(null));
    place.addEventListener("keydown", (event) => this.#handleKey(event));
    new ResizeObserver(() => this.#draw()).observe(place);
  }

  update(points) {
    this.#points = points;
    this.#draw();
  }

  #draw() {
    if (this.#points === null) return;
    const at = this.#indexOf(this.#chosen);
    this.#charts.forEach((chart) => chart.draw(this.#points, at));
  }

  /** The point that is nearest to this many seconds before the newest. */
  #indexOf(seconds) {
    const { times } = this.#points;
    if (seconds === null || times.length === 0) return null;
    const wanted = times.at(-1) - seconds;
    const after = times.findIndex((each) => each >= wanted);
    return after > 0 && wanted - times[after - 1] < times[after] - wanted ? after - 1 : Math.max(0, after);
  }

  #choose(seconds) {
    this.#chosen = seconds;
    this.#draw();
    const at = this.#points === null ? null : this.#indexOf(seconds);
    if (at === null) return this.#onMoment("");
    const ago = time(Math.round(this.#points.times.at(-1) - this.#points.times[at]));
    // A screen reader has no other way to the values of the chart that has the focus.
    const focused = this.#charts.find((chart) => chart.figure === document.activeElement);
    this.#onMoment(`${ago} ago${focused === undefined ? "" : `: ${focused.shown}`}`);
  }

  #handlePointer(event) {
    const figure = event.target.closest("figure");
    const chart = this.#charts.find((chart) => chart.figure === figure);
    const part = chart?.partOf(event.clientX);
    this.#choose(part === undefined ? null : Math.round((1 - part) * (POINTS - 1)));
  }

  #handleKey(event) {
    const step = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30 }[event.key];
    if (step === undefined && event.key !== "Escape") return;
    event.preventDefault();
    const longest = this.#points === null ? 0 : this.#points.times.at(-1) - this.#points.times[0];
    this.#choose(step === undefined ? null : Math.min(longest, Math.max(0, (this.#chosen ?? 0) + step)));
  }
}

class Chart {
  /** The values that are written, in words. */
  shown = "";
  #about;
  #svg = svg("svg", { role: "img", height: HEIGHT });
  #grid = svg("path", { class: "grid" });
  #cursor = svg("path", { class: "cursor" });
  #lines;
  #marks;
  #values;

  constructor(about, onExplain) {
    this.#about = about;
    this.figure = document.createElement("figure");
    this.figure.tabIndex = 0;
    const caption = document.createElement("figcaption");
    const title = document.createElement("button");
    title.type = "button";
    title.textContent = about.title;
    title.title = about.meaning;
    title.addEventListener("click", onExplain);
    caption.append(title);
    this.#values = about.lines.map(([, label], at) => legend(caption, about.lines.length > 1 ? label : "", at));
    this.#lines = about.lines.map((_, at) => svg("path", { class: `line line${at}` }));
    this.#marks = [0, 1, 2].map((at) => svg("text", { class: "mark", x: LEFT - 6, y: TOP + ((HEIGHT - TOP - BOTTOM) * at) / 2 + 4 }));
    const begin = svg("text", { class: "time begin", x: LEFT, y: HEIGHT - 4 });
    begin.textContent = `${POINTS / 60} min ago`;
    this.end = svg("text", { class: "time", y: HEIGHT - 4 });
    this.end.textContent = "now";
    this.#svg.append(this.#grid, ...this.#lines, this.#cursor, ...this.#marks, begin, this.end);
    this.figure.append(caption, this.#svg);
  }

  /** Where a place of the pointer is in the seconds that are shown, from 0 to 1. */
  partOf(clientX) {
    const { left, width } = this.#svg.getBoundingClientRect();
    const part = (clientX - left - LEFT) / (width - LEFT);
    return part >= 0 && part <= 1 ? part : undefined;
  }

  /** `chosen`: the point whose values are written; `null`: the newest. */
  draw(points, chosen) {
    const { unit, axis, lines, least } = this.#about;
    const width = this.figure.clientWidth;
    const all = lines.map(([field]) => points[field]);
    const highest = Math.max(...all.map((values) => values.reduce((most, value) => (value > most ? value : most), 0)));
    const top = nice(Math.max(highest, least), unit === time);
    const newest = points.times.at(-1);
    const x = (at) => LEFT + (width - LEFT - 2) * (1 - (newest - points.times[at]) / (POINTS - 1));
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    set(this.#svg, "width", width);
    set(this.end, "x", width - 2);
    set(this.#grid, "d", [0, 0.5, 1].map((part) => `M${LEFT} ${y(top * part)}H${width}`).join(""));
    all.forEach((values, at) => set(this.#lines[at], "d", path(points.times, values, x, y)));
    this.#marks.forEach((mark, at) => write(mark, axis((top * (2 - at)) / 2)));
    set(this.#cursor, "d", chosen === null ? "" : `M${x(chosen).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`);
    const shown = all.map((values) => shownValue(values.at(chosen ?? -1), unit));
    this.#values.forEach((place, at) => write(place, shown[at]));
    this.shown = lines.map(([, label], at) => `${label} ${shown[at]}`).join(", ");
    set(this.#svg, "aria-label", `${this.#about.title}: ${this.shown}; highest ${unit(highest)}`);
  }
}

/** `-` where nothing was measured. */
function shownValue(value, unit) {
  return value === undefined || Number.isNaN(value) ? "-" : unit(value);
}

/** Broken where nothing was measured, or no snapshot came. */
function path(times, values, x, y) {
  const steps = [];
  for (let at = 0; at < values.length; at++) {
    // A tab that was hidden has older points than are shown.
    if (Number.isNaN(values[at]) || times.at(-1) - times[at] >= POINTS) continue;
    const isJoined = at > 0 && steps.length > 0 && !Number.isNaN(values[at - 1]) && times[at] - times[at - 1] <= GAP;
    steps.push(`${isJoined ? "L" : "M"}${x(at).toFixed(1)} ${y(values[at]).toFixed(1)}`);
    // A point between two gaps is seen, too.
    if (!isJoined) steps.push("h0");
  }
  return steps.join("");
}

/** The next larger number that is easy to read and to halve: 1, 2, 5, 10; of times also 1, 2, 4 and 10 minutes. */
function nice(highest, isTime) {
  if (isTime && highest > 50) return [60, 120, 240, 600].find((each) => each >= highest) ?? Math.ceil(highest / 1200) * 1200;
  const unit = 10 ** Math.floor(Math.log10(highest));
  return unit * [1, 2, 4, 10].find((each) => each * unit >= highest * 0.999);
}

function legend(caption, label, at) {
  const value = document.createElement("b");
  const place = document.createElement("span");
  place.className = `legend legend${at}`;
  place.append(`${label} `, value);
  caption.append(place);
  return value;
}

function svg(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function set(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
