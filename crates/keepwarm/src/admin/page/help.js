// The help: keys, and what each number means. A number on the page leads to its entry.

import { CHARTS } from "./chart.js";
import { LISTS } from "./lists.js";
import { titled } from "./timeline.js";

const element = (id) => document.getElementById(id);
const CHARTS_ID = "charts";

/** Opens it, at its beginning. */
export function openHelp() {
  if (element("help-entries").children.length === 0) fill();
  element("help").showModal();
}

/** Opens it at a column of a list. */
export function explainColumn(list, at) {
  explain(list.id, at);
}

/** Opens it at a chart. */
export function explainChart(at) {
  explain(CHARTS_ID, at);
}

function explain(part, at) {
  openHelp();
  const entry = element(idOf(part, at));
  entry.focus({ preventScroll: true });
  entry.scrollIntoView({ block: "center" });
}

function fill() {
  const parts = [
    ["Charts", CHARTS_ID, CHARTS.map(({ title, meaning }) => [title, meaning])],
    ...LISTS.map(({ title, id, columns }) => [title, id, columns]),
  ];
  element("help-entries").append(...parts.flatMap(([title, id, entries]) => [titled("h3", title), meanings(id, entries)]));
}

function meanings(part, entries) {
  const list = document.createElement("dl");
  list.append(...entries.flatMap(([title, meaning], at) => [named(part, at, title), titled("dd", meaning)]));
  return list;
}

/** It can be given the focus, so that a screen reader reads on from there. */
function named(part, at, title) {
  const entry = titled("dt", title);
  entry.id = idOf(part, at);
  entry.tabIndex = -1;
  return entry;
}

function idOf(part, at) {
  return `help-${part}-${at}`;
}
