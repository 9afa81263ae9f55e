// One table for all lists. A row of the list keeps its element as long as it is shown; only text that has changed is written.

// Rows that are in the document at once: thousands would take longer than a second to draw.
const PAGE = 50;

import { drawBar, newBar } from "./timeline.js";

const element = (id) => document.getElementById(id);

export class Table {
  #list = null;
  #order = new Map();
  #pages = new Map();
  #rows = [];
  /** By key: the element of each row that is shown, its cells and their text. */
  #shown = new Map();
  #onOpen;
  #onExplain;

  /** `onExplain` gets the list and the place of a column in it. */
  constructor(onOpen, onExplain) {
    this.#onOpen = onOpen;
    this.#onExplain = onExplain;
    element("previous").addEventListener("click", () => this.#turn(-1));
    element("next").addEventListener("click", () => this.#turn(1));
    element("sort").addEventListener("change", (event) => this.#sortBy(event.target.value));
    element("headings").addEventListener("click", (event) => this.#handleHeading(event));
    element("rows").addEventListener("click", (event) => this.#handleRow(event));
    element("filter").addEventListener("input", () => this.#firstPage());
    element("filter").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.target.value = "";
      this.#firstPage();
    });
  }

  /** Shows another list. */
  show(list) {
    this.#list = list;
    this.#shown.clear();
    element("rows").replaceChildren();
    element("headings").replaceChildren(...list.columns.map(heading));
    element("sort").replaceChildren(new Option(list.unsorted ?? "as configured", ""), ...list.columns.flatMap(([title], at) => sorts(title, at)));
    this.#markOrder();
  }

  /** Another app is chosen, or another filter. */
  reset() {
    this.#pages.clear();
  }

  /** The rows of the next snapshot. */
  update(rows) {
    this.#rows = rows;
    this.#draw();
  }

  #firstPage() {
    this.reset();
    this.#draw();
  }

  #draw() {
    const wanted = element("filter").value.toLowerCase();
    const matches = (row) => row.cells.some((cell) => cell.text.toLowerCase().includes(wanted));
    const rows = this.#sorted(wanted === "" ? this.#rows : this.#rows.filter(matches));
    const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
    const page = Math.min(this.#pages.get(this.#list.id) ?? 0, last);
    this.#pages.set(this.#list.id, page);
    this.#place(rows.slice(page * PAGE, (page + 1) * PAGE));
    this.#drawPager(rows.length, page, last);
  }

  #sorted(rows) {
    const order = this.#currentOrder();
    if (order === null) return rows;
    const direction = order.isReversed ? -1 : 1;
    return rows.toSorted((a, b) => direction * compare(a.cells[order.column], b.cells[order.column]));
  }

  #place(rows) {
    const body = element("rows");
    const focused = document.activeElement;
    const before = this.#shown;
    this.#shown = new Map();
    for (const row of rows) {
      // The second of two rows with one key has an element, too.
      const key = this.#shown.has(row.key) ? `${row.key} ${this.#shown.size}` : row.key;
      const shown = before.get(key) ?? newRow(row, this.#list);
      before.delete(key);
      write(shown, row);
      this.#shown.set(key, shown);
    }
    for (const { element } of before.values()) element.remove();
    let next = body.firstElementChild;
    for (const { element } of this.#shown.values()) {
      if (element === next) next = next.nextElementSibling;
      else body.insertBefore(element, next);
    }
    // An element that is moved loses the focus.
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
  }

  #drawPager(count, page, last) {
    const first = page * PAGE;
    setText(element("count"), count === 0 ? "" : last === 0 ? String(count) : `${first + 1} to ${Math.min(first + PAGE, count)} of ${count}`);
    for (const [id, isUseless] of [["previous", page === 0], ["next", page === last]]) {
      element(id).hidden = last === 0;
      // Not `disabled`, which would take the focus from who reads on by Enter.
      element(id).setAttribute("aria-disabled", String(isUseless));
    }
    element("none").hidden = count > 0;
    setText(element("none"), element("filter").value === "" ? "none" : "none matches the filter");
  }

  #turn(pages) {
    const page = (this.#pages.get(this.#list.id) ?? 0) + pages;
    this.#pages.set(this.#list.id, Math.max(0, page));
    this.#draw();
  }

  /** The column and the direction; `null`: as configured. */
  #currentOrder() {
    const { id, firstOrder } = this.#list;
    const order = this.#order.get(id);
    return order !== undefined ? order : firstOrder === undefined ? null : { column: firstOrder, isReversed: false };
  }

  /** `3`: by column 3; `3-`: reversed; empty: as configured. */
  #sortBy(value) {
    this.#order.set(this.#list.id, value === "" ? null : { column: parseInt(value, 10), isReversed: value.endsWith("-") });
    this.#markOrder();
    this.#firstPage();
  }

  /** By this column, then reversed, then as configured. */
  #handleHeading(event) {
    const column = event.target.closest("button")?.dataset.column;
    if (column === undefined) return;
    const order = this.#currentOrder();
    const isSame = order?.column === Number(column);
    this.#sortBy(!isSame ? column : order.isReversed ? "" : `${column}-`);
  }

  #markOrder() {
    const order = this.#currentOrder();
    element("sort").value = order === null ? "" : `${order.column}${order.isReversed ? "-" : ""}`;
    [...element("headings").children].forEach((cell, at) => {
      // Numbers are sorted from the largest, and text from A.
      const isDescending = cell.classList.contains("number") !== order?.isReversed;
      if (order?.column !== at) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    });
  }

  #handleRow(event) {
    const button = event.target.closest("button");
    const number = event.target.closest("td.number");
    if (number !== null) return this.#onExplain(this.#list, number.cellIndex);
    if (button === null) return;
    const shown = [...this.#shown.values()].find(({ element }) => element.contains(button));
    if (shown !== undefined) this.#onOpen(shown.row.open);
  }
}

function compare(a, b) {
  if (a.number !== undefined && b.number !== undefined) return b.number === a.number ? 0 : b.number - a.number;
  return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
}

function heading([title, meaning, isNumber], at) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = title;
  button.title = meaning;
  button.dataset.column = String(at);
  const cell = document.createElement("th");
  cell.scope = "col";
  cell.classList.toggle("number", isNumber === true);
  cell.setAttribute("role", "columnheader");
  cell.append(button);
  return cell;
}

function sorts(title, at) {
  return [new Option(title, String(at)), new Option(`${title}, reversed`, `${at}-`)];
}

/** The first cell names the row, and is a button where the row can be opened. */
function newRow(row, list) {
  const element = document.createElement("tr");
  element.setAttribute("role", "row");
  const cells = row.cells.map((cell, at) => {
    const place = document.createElement(at === 0 ? "th" : "td");
    place.setAttribute("role", at === 0 ? "rowheader" : "cell");
    if (at === 0) place.scope = "row";
    place.dataset.column = list.columns[at][0];
    place.classList.toggle("number", cell.number !== undefined);
    // What a click on it opens in full.
    if (cell.number !== undefined) place.title = list.columns[at][1];
    element.append(place);
    if (cell.bar !== undefined) {
      const words = document.createElement("span");
      const bar = newBar();
      drawBar(bar, cell.bar);
      place.append(words, bar);
      return words;
    }
    if (at > 0 || row.open === undefined) return place;
    const button = document.createElement("button");
    button.type = "button";
    place.append(button);
    return button;
  });
  return { element, cells, texts: [], colors: [], row };
}

function write(shown, row) {
  shown.row = row;
  row.cells.forEach((cell, at) => {
    if (shown.texts[at] !== cell.text) {
      shown.cells[at].textContent = cell.text;
      shown.texts[at] = cell.text;
    }
    if (shown.colors[at] !== cell.color) {
      shown.cells[at].dataset.color = cell.color ?? "";
      shown.colors[at] = cell.color;
    }
  });
}

export function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
