// A button for something that needs rights: when the cluster says beforehand that they are missing, it says so.
import { h } from "./dom.js";
import { send } from "./api.js";

let count = 0;

/**
 * Return *button* in a place where the words why it is disabled can stand; while nothing is known, it can be pressed.
 * @param {HTMLElement} button
 * @param {...any} bodies what it does, as `POST rights` takes it
 */
export function guarded(button, ...bodies) {
  const place = h("div.guarded", null, button);
  Promise.all(bodies.map((each) => send("rights", each))).then((found) => {
    const denied = [...new Set(found.flatMap((each) => each.mayNot))];
    if (!denied.length) return;
    const id = `may-not-${++count}`;
    /** @type {HTMLButtonElement} */ (button).disabled = true;
    button.setAttribute("aria-describedby", id);
    place.append(h("p.warn.may-not", { id }, `Your rights do not allow it: you may not ${denied.join(", nor ")}.`));
  }).catch(() => { /* not known: the cluster itself answers when it is tried */ });
  return place;
}
