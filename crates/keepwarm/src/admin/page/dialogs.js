// What opens above the page: a worker, an endpoint, and a reload.

import { lines, size, time, words } from "./format.js";
import { doingOf, findEndpoint, findWorker, stateOf, workerName } from "./lists.js";
import { setText } from "./table.js";

const element = (id) => document.getElementById(id);

/** One worker: its facts, the requests that it holds, its stack, and its replacement. */
export class WorkerDialog {
  #key = null;
  #pid = null;
  #dialog = element("worker");
  #changes;

  constructor(changes) {
    this.#changes = changes;
    element("stack-button").addEventListener("click", () => this.#showStack());
    element("recycle-button").addEventListener("click", () => this.#askToRecycle(true));
    element("recycle-no").addEventListener("click", () => this.#askToRecycle(false));
    element("recycle-yes").addEventListener("click", () => this.#recycle());
  }

  open(key, snapshot) {
    const worker = findWorker(snapshot, key);
    // It has gone since the list was drawn.
    if (worker === undefined) return;
    this.#key = key;
    this.#pid = worker.pid;
    this.#writeStack("", "");
    this.#writeRecycled("");
    element("recycle-confirm").hidden = true;
    element("worker-facts").replaceChildren();
    setText(element("worker-name"), `Worker ${workerName(worker)}`);
    this.#dialog.showModal();
    this.update(snapshot);
  }

  update(snapshot) {
    if (!this.#dialog.open) return;
    const worker = findWorker(snapshot, this.#key);
    writeFacts(element("worker-facts"), worker === undefined ? [["State", "gone"]] : factsOf(worker));
    writeItems(element("worker-requests"), worker?.active_requests.map(requestLine) ?? [], "none");
  }

  async #showStack() {
    const key = this.#key;
    this.#writeStack("", "");
    const printed = await this.#post("/stack", () => this.#showStack());
    if (printed !== null && key === this.#key) this.#writeStack(printed.stack ?? "", printed.detail ?? "");
  }

  #askToRecycle(asks) {
    this.#writeRecycled("");
    element("recycle-confirm").hidden = !asks;
    element(asks ? "recycle-no" : "recycle-button").focus();
  }

  async #recycle() {
    const key = this.#key;
    this.#askToRecycle(false);
    const outcome = await this.#post("/recycle", () => this.#recycle());
    if (outcome !== null && key === this.#key) this.#writeRecycled(outcome.message ?? outcome.detail ?? "");
  }

  #writeRecycled(outcome) {
    setText(element("recycle-outcome"), words(outcome));
    element("recycle-outcome").hidden = outcome === "";
  }

  /** By its process: during a reload two workers have the same number. */
  #post(path, again) {
    return this.#changes.post(`${path}?worker=${encodeURIComponent(this.#pid ?? "")}`, this.#dialog, again);
  }

  #writeStack(stack, error) {
    for (const [id, text] of [["stack-text", lines(stack)], ["stack-error", words(error)]]) {
      setText(element(id), text);
      element(id).hidden = text === "";
    }
  }
}

/** One endpoint: its facts, and whether it is in use. */
export class EndpointDialog {
  #key = null;
  #isDrained = false;
  #dialog = element("endpoint");
  #changes;

  constructor(changes) {
    this.#changes = changes;
    element("drain-button").addEventListener("click", () => (this.#isDrained ? this.#set("ready") : this.#ask(true)));
    element("drain-no").addEventListener("click", () => this.#ask(false));
    element("drain-yes").addEventListener("click", () => this.#set("drain"));
  }

  open(key, snapshot) {
    // It has gone since the list was drawn.
    if (findEndpoint(snapshot, key) === undefined) return;
    this.#key = key;
    this.#write("");
    element("drain-confirm").hidden = true;
    element("endpoint-facts").replaceChildren();
    setText(element("endpoint-name"), `Endpoint ${words(key[1])} of ${words(key[0])}`);
    this.#dialog.showModal();
    this.update(snapshot);
  }

  update(snapshot) {
    if (!this.#dialog.open) return;
    const endpoint = findEndpoint(snapshot, this.#key);
    writeFacts(element("endpoint-facts"), endpoint === undefined ? [["State", "gone"]] : factsOfEndpoint(endpoint));
    this.#isDrained = endpoint?.drained ?? false;
    setText(element("drain-button"), this.#isDrained ? "Put back into use" : "Drain endpoint");
  }

  #ask(asks) {
    this.#write("");
    element("drain-confirm").hidden = !asks;
    element(asks ? "drain-no" : "drain-button").focus();
  }

  async #set(state) {
    const key = this.#key;
    this.#ask(false);
    const [upstream, endpoint] = key.map(encodeURIComponent);
    const path = `/endpoint?upstream=${upstream}&endpoint=${endpoint}&state=${state}`;
    const outcome = await this.#changes.post(path, this.#dialog, () => this.#set(state));
    if (outcome !== null && key === this.#key) this.#write(outcome.message ?? outcome.detail ?? "");
  }

  #write(outcome) {
    setText(element("drain-outcome"), words(outcome));
    element("drain-outcome").hidden = outcome === "";
  }
}

function factsOfEndpoint(endpoint) {
  return [
    ["State", words(endpoint.state)],
    ["Weight and priority", `${words(endpoint.weight)}, ${words(endpoint.priority)}`],
    ["Calls in flight", words(endpoint.in_flight)],
    ["Calls so far", words(endpoint.calls?.total)],
    ["Last failed health check", words(endpoint.check_failure)],
    ["Last failure", words(endpoint.last_failure?.sentence)],
  ];
}

function factsOf(worker) {
  return [
    ["State", `${stateOf(worker)}, for ${time(worker.state_seconds)}`],
    ["Process", words(worker.pid)],
    ["Generation", words(worker.generation)],
    ["Age", time(worker.age_seconds)],
    ["Requests so far", words(worker.requests)],
    ["Earlier workers in this slot", words(worker.restarts)],
    ["Own memory", size(worker.memory?.own_bytes)],
    ["Shared memory", size(worker.memory?.shared_bytes)],
  ];
}

function requestLine(request) {
  const state = request.seconds === null ? "waits behind another" : `for ${time(request.seconds)}${request.responding ? ", responds" : ""}`;
  return `${doingOf(request)} ${state}, id ${words(request.request_id)}`;
}

function writeFacts(list, facts) {
  if (list.children.length !== facts.length * 2) {
    list.replaceChildren(...facts.flatMap(() => [document.createElement("dt"), document.createElement("dd")]));
  }
  facts.flat().forEach((text, at) => setText(list.children[at], text));
}

function writeItems(list, texts, none) {
  const shown = texts.length === 0 ? [none] : texts;
  while (list.children.length > shown.length) list.lastElementChild.remove();
  while (list.children.length < shown.length) list.append(document.createElement("li"));
  shown.forEach((text, at) => setText(list.children[at], text));
}

/** Asks before it reloads, and shows what came of it. */
export class ReloadDialog {
  #dialog = element("reload");
  #changes;

  constructor(changes) {
    this.#changes = changes;
    element("reload-button").addEventListener("click", () => this.#open());
    element("reload-confirm").addEventListener("click", () => this.#reload());
  }

  #open() {
    this.#write("");
    this.#dialog.showModal();
  }

  async #reload() {
    // A second one would wait for the first.
    if (!element("reload-busy").hidden) return;
    this.#write("", true);
    const outcome = await this.#changes.post("/reload", this.#dialog, () => this.#reload());
    this.#write(outcome === null ? "" : (outcome.message ?? outcome.detail ?? ""));
  }

  #write(outcome, isBusy = false) {
    element("reload-busy").hidden = !isBusy;
    element("reload-outcome").hidden = outcome === "";
    setText(element("reload-outcome"), lines(outcome));
  }
}
