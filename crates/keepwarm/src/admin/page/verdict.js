// The verdict of `keepwarm why`, before all else.

import { time, words } from "./format.js";
import { setText } from "./table.js";

// As many as `keepwarm why` shows.
const EVENTS = 4;

/** Findings that are shown keep their elements, so that an explanation that was opened stays open. */
export class Verdict {
  #place;
  #healthy = paragraph("healthy");
  #events = paragraph("events");
  #shown = new Map();
  #onApp;

  constructor(place, onApp) {
    this.#place = place;
    this.#onApp = onApp;
    place.replaceChildren(this.#healthy, this.#events);
  }

  /** Returns what to announce: it changes with the findings, not with their figures. */
  update(why) {
    const before = this.#shown;
    this.#shown = new Map();
    for (const finding of why.findings) {
      const key = JSON.stringify([finding.id, finding.app, finding.upstream]);
      const shown = before.get(key) ?? this.#newFinding(finding);
      before.delete(key);
      shown.update(finding);
      this.#shown.set(key, shown);
    }
    for (const { element } of before.values()) element.remove();
    for (const { element } of this.#shown.values()) if (!element.isConnected) this.#place.insertBefore(element, this.#events);
    const isHealthy = why.findings.length === 0;
    setText(this.#healthy, isHealthy ? "healthy: nothing slows it down" : "");
    this.#healthy.hidden = !isHealthy;
    this.#writeEvents(why.events);
    return isHealthy ? "healthy" : why.findings.map((finding) => `${subjectOf(finding)}: ${words(finding.id)}`).join("; ");
  }

  #newFinding(finding) {
    const element = document.createElement("article");
    element.className = finding.severity === "fault" ? "fault" : "note";
    const label = document.createElement("strong");
    label.textContent = finding.severity === "fault" ? "WHY" : "NOTE";
    const subject = document.createElement(finding.app === null ? "span" : "button");
    if (finding.app !== null) {
      subject.type = "button";
      subject.title = "see this app only";
      subject.addEventListener("click", () => this.#onApp(finding.app));
    }
    subject.textContent = subjectOf(finding);
    const evidence = document.createElement("span");
    const line = document.createElement("p");
    line.append(label, " ", subject, " ", evidence);
    element.append(line, explanation(finding));
    const update = (finding) => setText(evidence, `for ${time(finding.seconds)}: ${words(finding.evidence)}`);
    return { element, update };
  }

  #writeEvents(events) {
    const last = events.slice(-EVENTS).reverse();
    const one = (event) => `${time(event.seconds_ago)} ago ${words(event.subject)}: ${words(event.text)}`;
    setText(this.#events, last.length === 0 ? "" : `SINCE ${last.map(one).join(" · ")}`);
    this.#events.hidden = last.length === 0;
  }
}

function subjectOf(finding) {
  if (finding.app !== null) return words(finding.app);
  return finding.upstream === null ? "machine" : `upstream ${words(finding.upstream)}`;
}

function explanation(finding) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "What it means, and what to do";
  const command = document.createElement("code");
  command.textContent = `keepwarm explain ${words(finding.id)}`;
  const more = document.createElement("p");
  more.append("More: ", command);
  details.append(summary, ...[finding.meaning, finding.remedy].map((text) => paragraph("", words(text))), more);
  return details;
}

function paragraph(name, text = "") {
  const element = document.createElement("p");
  element.className = name;
  element.textContent = text;
  return element;
}
