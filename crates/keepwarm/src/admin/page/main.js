// The page: what is chosen on it, and where each snapshot goes. Text goes into the document as text only; the response's
// Content-Security-Policy refuses anything else.

import { Changes } from "./changes.js";
import { Charts } from "./chart.js";
import { EndpointDialog, ReloadDialog, WorkerDialog } from "./dialogs.js";
import { time, words } from "./format.js";
import { explainChart, explainColumn, openHelp } from "./help.js";
import { ALL, History } from "./history.js";
import { LISTS } from "./lists.js";
import { REJECTED, Stream } from "./stream.js";
import { setText, Table } from "./table.js";
import { RecentDialog } from "./timeline.js";
import { Verdict } from "./verdict.js";

const element = (id) => document.getElementById(id);

let snapshot = null;
let list = LISTS.find(({ id }) => `#${id}` === location.hash) ?? LISTS[0];
let app = ALL;
let apps = null;
/** What needs the token beside the stream: done once it is there. */
let afterToken = null;

const history = new History();
const charts = new Charts(element("charts"), (moment) => setText(element("moment"), moment), explainChart);
const verdict = new Verdict(element("verdict"), chooseApp);
const changes = new Changes((path, options) => stream.request(path, options), askToken);
const worker = new WorkerDialog(changes);
const endpoint = new EndpointDialog(changes);
const recent = new RecentDialog();
new ReloadDialog(changes);
const table = new Table(openRow, explainColumn);

element("tabs").append(...LISTS.map(newTab));
showList(list);
element("app").addEventListener("change", (event) => chooseApp(event.target.value));
element("help-button").addEventListener("click", openHelp);
element("token").addEventListener("submit", handleToken);
document.addEventListener("keydown", handleKey);
document.addEventListener("visibilitychange", draw);
const stream = new Stream({ onSnapshot, onOutage, onToken });

function onSnapshot(next) {
  snapshot = next;
  history.add(next);
  element("token").hidden = afterToken === null;
  element("shown").hidden = false;
  draw();
}

/** Nothing is drawn where nobody looks. */
function draw() {
  if (snapshot === null || document.hidden) return;
  drawHeading();
  announce(verdict.update(snapshot.why));
  drawApps();
  charts.update(history.of(app));
  drawRows();
  worker.update(snapshot);
  endpoint.update(snapshot);
  recent.update(snapshot);
}

function openRow(open) {
  if (open.app !== undefined) chooseApp(open.app);
  else if (open.worker !== undefined) worker.open(open.worker, snapshot);
  else if (open.recent !== undefined) recent.open(open.recent, snapshot);
  else endpoint.open(open.endpoint, snapshot);
}

function drawHeading() {
  const { version, ready, uptime_seconds: uptime, pid, generation } = snapshot.status;
  const parts = [words(version), ready ? "ready" : "not ready", `up ${time(uptime)}`, `process ${words(pid)}`];
  setText(element("about"), [...parts, `generation ${words(generation)}`].join(" · "));
  element("about").classList.toggle("warn", !ready);
  const faults = snapshot.why.findings.filter(({ severity }) => severity === "fault").length;
  setText(document.querySelector("title"), faults === 0 ? "Keepwarm" : `(${faults}) Keepwarm`);
}

function drawApps() {
  const names = snapshot.status.apps.map(({ name }) => name);
  const text = JSON.stringify(names);
  if (text === apps) return;
  apps = text;
  const select = element("app");
  select.replaceChildren(new Option("all apps", ALL), ...names.map((name) => new Option(words(name), name)));
  // A reload may have removed it.
  if (!names.includes(app)) app = ALL;
  select.value = app;
}

function drawRows() {
  const rows = list.rows(snapshot);
  table.update(app === ALL ? rows : rows.filter((row) => row.app === undefined || row.app === app));
}

function chooseApp(name) {
  app = name;
  element("app").value = name;
  table.reset();
  draw();
}

function newTab(list) {
  const tab = document.createElement("button");
  tab.type = "button";
  tab.id = `tab-${list.id}`;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", "panel");
  tab.textContent = list.title;
  tab.addEventListener("click", () => showList(list));
  return tab;
}

function showList(next) {
  list = next;
  // Kept over a reload of the page; not a step to go back to.
  window.history.replaceState(null, "", `#${list.id}`);
  for (const each of LISTS) {
    const tab = element(`tab-${each.id}`);
    tab.setAttribute("aria-selected", String(each === list));
    tab.tabIndex = each === list ? 0 : -1;
  }
  for (const id of ["panel", "table"]) element(id).setAttribute("aria-labelledby", `tab-${list.id}`);
  table.show(list);
  if (snapshot !== null) drawRows();
}

function handleKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]") !== null) return;
  if (event.target.matches("input, select")) return;
  if (event.target.matches("[role=tab]") && handleTabKey(event.key)) event.preventDefault();
  else if (event.key === "/") {
    event.preventDefault();
    element("filter").focus();
  } else if (event.key === "?") explainFocused(event.target);
  else if (LISTS[Number(event.key) - 1] !== undefined) showList(LISTS[Number(event.key) - 1]);
}

/** The chart or the column that has the focus, or else all. */
function explainFocused(focused) {
  const chart = [...element("charts").children].findIndex((figure) => figure.contains(focused));
  if (chart >= 0) explainChart(chart);
  else if (focused.matches("#headings button")) explainColumn(list, Number(focused.dataset.column));
  else openHelp();
}

/** Keys of tabs, as ARIA describes them. */
function handleTabKey(key) {
  const at = LISTS.indexOf(list);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[key];
  if (next === undefined) return false;
  showList(LISTS.at(next % LISTS.length));
  element(`tab-${list.id}`).focus();
  return true;
}

function handleToken(event) {
  event.preventDefault();
  const token = element("token-text").value;
  element("token-text").value = "";
  // What a field of HTTP cannot have.
  if (!/^[\x21-\x7e]+$/.test(token)) return showToken("A browser can only send a token of letters, digits and signs of ASCII.");
  stream.setToken(token);
  const then = afterToken;
  afterToken = null;
  if (then === null) return;
  element("token").hidden = true;
  then();
}

/** The stream needs the token. */
function onToken(sentence) {
  element("shown").hidden = true;
  setText(element("about"), "");
  showToken(sentence);
}

/** A change needs the token, of which the stream has no need. */
function askToken(then) {
  afterToken = then;
  showToken(stream.forgetToken() ? REJECTED : "Changes need it.");
}

function showToken(sentence) {
  setText(element("token-why"), sentence);
  if (element("token").hidden) {
    element("token").hidden = false;
    element("token-text").focus();
  }
  announce(`${sentence} Enter the token of [admin].`);
}

function onOutage(sentence, since) {
  element("outage").hidden = sentence === null;
  document.body.classList.toggle("stale", sentence !== null);
  if (sentence === null) return;
  const age = since === null ? 0 : Math.round((Date.now() - since) / 1000);
  setText(element("outage"), `NO SNAPSHOT${age > 0 ? ` for ${time(age)}` : ""}: ${words(sentence)}`);
  announce(`No snapshot: ${words(sentence)}`);
}

/** Read out when it changes. */
function announce(text) {
  setText(element("announcement"), text);
}
