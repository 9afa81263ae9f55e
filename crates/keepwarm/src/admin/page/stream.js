// The stream of snapshots, `GET /events`. By `fetch`: an EventSource cannot send the token.

const RETRY = 1000;
// Snapshots come each second; a process without them for this long does not turn.
const SILENT = 5000;
// A stream costs the process a snapshot a second: a tab that nobody has looked at for this long has none.
const HIDDEN = 300_000;
const TOKEN = "keepwarm-token";
export const REJECTED = "This token is not accepted.";

/**
 * Calls `onSnapshot(snapshot)`, `onOutage(sentence, since)` (`null` when there is none), and `onToken(sentence)` where it needs
 * the token; `setToken` continues then.
 */
export class Stream {
  #events;
  #wake = () => {};
  #abort = null;
  /** When the last snapshot came; before the first, since when it is waited for; `null`: it is not. */
  #last = Date.now();
  #outage = null;
  #isPaused = false;

  constructor(events) {
    this.#events = events;
    setInterval(() => this.#watch(), 1000);
    let hiding = null;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(hiding);
      if (document.hidden) {
        hiding = setTimeout(() => this.#pause(), HIDDEN);
      } else {
        this.#isPaused = false;
        this.#wake();
      }
    });
    this.#run();
  }

  setToken(token) {
    sessionStorage.setItem(TOKEN, token);
    this.#last ??= Date.now();
    this.#wake();
  }

  /** Removes a token that was rejected. Returns whether there was one. */
  forgetToken() {
    const wasWrong = sessionStorage.getItem(TOKEN) !== null;
    sessionStorage.removeItem(TOKEN);
    return wasWrong;
  }

  /** A request with the token, if there is one. Throws what `fetch` throws: also for a token that no field can have. */
  request(path, options = {}) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { Accept: "application/json", ...(token === null ? {} : { Authorization: `Bearer ${token}` }) };
    return fetch(path, { cache: "no-store", headers, ...options });
  }

  async #run() {
    for (;;) {
      if (this.#isPaused) await this.#sleep();
      const refused = await this.#read().catch((error) => ({ sentence: sentenceOf(error) }));
      this.#abort.abort();
      if (refused?.needsToken) {
        const wasWrong = this.forgetToken();
        this.#last = null;
        this.#setOutage(null);
        this.#events.onToken(wasWrong ? REJECTED : "The address of this page needs it.");
        await this.#sleep();
      } else if (!this.#isPaused) {
        this.#setOutage(refused?.sentence ?? "the stream has ended");
        await this.#sleep(RETRY);
      }
    }
  }

  /** Until `setToken`, until the tab is seen again, or for this long. */
  #sleep(milliseconds) {
    return new Promise((wake) => {
      this.#wake = wake;
      if (milliseconds !== undefined) setTimeout(wake, milliseconds);
    });
  }

  /** Reads one response to its end, or says why there is none. */
  async #read() {
    this.#abort = new AbortController();
    const response = await this.request("/events", { signal: this.#abort.signal });
    if (!response.ok) {
      const { reason, detail } = await response.json().catch(() => ({}));
      return { needsToken: ["no_token", "foreign_host"].includes(reason), sentence: detail ?? `status ${response.status}` };
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const lines = new Lines();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      for (const line of lines.of(part.value)) {
        // The data of an event is one line (docs/operate/events.md).
        if (line.startsWith("data: ")) this.#handleSnapshot(JSON.parse(line.slice("data: ".length)));
      }
    }
    return null;
  }

  #handleSnapshot(snapshot) {
    this.#last = Date.now();
    try {
      this.#events.onSnapshot(snapshot);
      this.#setOutage(null);
    } catch (error) {
      // After an upgrade, the snapshots may be those of another version than this page is of.
      console.error(error);
      this.#setOutage("this page cannot show the snapshots; reload it");
    }
  }

  #watch() {
    if (this.#last !== null && this.#outage === null && Date.now() - this.#last >= SILENT && !this.#isPaused) {
      this.#setOutage("the process does not respond");
    }
    this.#events.onOutage(this.#outage, this.#last);
  }

  #setOutage(sentence) {
    if (sentence === this.#outage) return;
    this.#outage = sentence;
    this.#events.onOutage(sentence, this.#last);
  }

  #pause() {
    this.#isPaused = true;
    this.#abort?.abort();
    this.#setOutage("paused: this tab was hidden");
  }
}

/** Text in pieces to lines. The pieces of a line are joined once: a snapshot of megabytes comes in many. */
class Lines {
  #pieces = [];

  *of(text) {
    const lines = text.split("\n");
    const rest = lines.pop();
    for (const line of lines) {
      this.#pieces.push(line);
      yield this.#pieces.join("");
      this.#pieces = [];
    }
    if (rest !== "") this.#pieces.push(rest);
  }
}

function sentenceOf(error) {
  // What `fetch` says of a process that has gone differs between browsers, and says no more.
  return error instanceof SyntaxError ? `a snapshot cannot be read: ${error.message}` : "no connection to the process";
}
