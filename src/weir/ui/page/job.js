// A request that computes for long on the server: how far it is, and a button that ends it.
import { h } from "./dom.js";
import { ask, isFrozen, send } from "./api.js";

export class Job {
  constructor() {
    this.name = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    this.abort = new AbortController();
    this.timer = 0;
  }

  /** @param {string} name @param {any} body @returns {Promise<any>} */
  send(name, body) {
    return send(name, isFrozen ? body : { ...body, job: this.name }, this.abort.signal);
  }

  /**
   * Show in *place* how far it is. The other screens can be used meanwhile.
   * @param {HTMLElement} place @param {string} first @param {(now: any) => string} words @param {() => void} cancelled
   */
  show(place, first, words, cancelled) {
    const bar = /** @type {HTMLProgressElement} */ (h("progress", { max: 1, "aria-label": "Simulation" }));
    const line = h("span.quiet", { role: "status" }, first);
    place.replaceChildren(h("div.card.row", { id: "simulating" }, line, bar,
      h("button.small", { type: "button", id: "cancel", onclick: () => { this.cancel(); cancelled(); } }, "Cancel")));
    if (isFrozen) return;
    clearInterval(this.timer);
    this.timer = window.setInterval(async () => {
      const now = await ask("progress", { job: this.name }).catch(() => null);
      if (!this.timer || !now || !now.total) return;
      bar.value = now.done / now.total;
      line.textContent = words(now);
    }, 300);
  }

  end() {
    clearInterval(this.timer);
    this.timer = 0;
  }

  cancel() {
    this.end();
    this.abort.abort();
    if (!isFrozen) send("cancel", { job: this.name }).catch(() => null);
  }
}
