// What changes something: with the token, for which the page asks once it is needed.

export class Changes {
  #request;
  #askToken;

  /** `request(path, options)` sends a request; `askToken(then)` asks for the token and continues with `then`. */
  constructor(request, askToken) {
    this.#request = request;
    this.#askToken = askToken;
  }

  /** The response, as an object; `null` if the token is asked for: `dialog` closes then, opens with the token, and `again` is called. */
  async post(path, dialog, again) {
    const response = await this.#send(path);
    if (response.reason !== "no_token") return response;
    dialog.close();
    this.#askToken(() => {
      dialog.showModal();
      again();
    });
    return null;
  }

  async #send(path) {
    try {
      const response = await this.#request(path, { method: "POST" });
      return await response.json();
    } catch {
      return { detail: "no connection to the process" };
    }
  }
}
