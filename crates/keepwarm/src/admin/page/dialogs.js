// What opens above the page: a worker, and the help.

import { lines, size, time, words } from "./format.js";
import { findWorker, LISTS, stateOf, workerName } from "./lists.js";
import { setText } from "./table.js";

const element = (id) => document.getElementById(id);

/** One worker: its facts, the requests that it holds, and its stack. */
export class WorkerDialog {
  #key = null;
  #pid = null;
  #dialog = element("worker");
  #request;
  #askToken;

  /** `request(path, options)` sends a request; `askToken(sentence, then)` asks for the token first. */
  constructor(request, askToken) {
    this.#request = request;
    this.#askToken = askToken;
    element("stack-button").addEventListener("click", () => this.#showStack());
  }

  open(key, snapshot) {
    const worker = findWorker(snapshot, key);
    // It has gone since the list was drawn.
    if (worker === undefined) return;
    this.#key = key;
    this.#pid = worker.pid;
    this.#writeStack("", "");
    element("worker-facts").replaceChildren();
    setText(element("worker-name"), `Worker ${workerName(worker)}`);
    this.update(snapshot);
    this.#dialog.showModal();
  }

  update(snapshot) {
    if (this.#key === null) return;
    const worker = findWorker(snapshot, this.#key);
    writeFacts(element("worker-facts"), worker === undefined ? [["State", "gone"]] : factsOf(worker));
    writeItems(element("worker-requests"), worker?.active_requests.map(requestLine) ?? [], "none");
  }

  async #showStack() {
    const key = this.#key;
    this.#writeStack("", "");
    const printed = await this.#printedStack();
    if (key !== this.#key || !this.#dialog.open) return;
    if (!printed.needsToken) return this.#writeStack(printed.stack ?? "", printed.detail ?? "");
    this.#dialog.close();
    this.#askToken("The stack of a worker needs it.", () => {
      this.#dialog.showModal();
      this.#showStack();
    });
  }

  async #printedStack() {
    // By its process: during a reload two workers have the same number.
    const path = `/stack?worker=${encodeURIComponent(this.#pid ?? "")}`;
    try {
      const response = await this.#request(path, { method: "POST" });
      const printed = await response.json();
      return { ...printed, needsToken: printed.reason === "no_token" };
    } catch {
      return { detail: "no connection to the process" };
    }
  }

  #writeStack(stack, error) {
    for (const [id, text] of [["stack-text", lines(stack)], ["stack-error", words(error)]]) {
      setText(element(id), text);
      element(id).hidden = text === "";
    }
  }
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
  const state = request.seconds === null ? "waits behind another" : `for ${time(request.seconds)}`;
  return `${words(request.method)} ${words(request.route)} ${state}, id ${words(request.request_id)}`;
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

/** Keys and columns. */
export function openHelp() {
  const columns = element("help-columns");
  if (columns.children.length === 0) {
    columns.append(...LISTS.flatMap((list) => [titled("h4", list.title), meanings(list)]));
  }
  element("help").showModal();
}

function meanings(list) {
  const element = document.createElement("dl");
  element.append(...list.columns.flatMap(([title, meaning]) => [titled("dt", title), titled("dd", meaning)]));
  return element;
}

function titled(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
