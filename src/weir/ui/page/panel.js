// The panel beside the screen, for one thing in full.
import { byId, h } from "./dom.js";

/** @type {(() => void) | null} */
let closing = null;

/**
 * @param {string} title
 * @param {HTMLElement} content
 * @param {{focus?: boolean, onClose?: () => void}} [given]
 */
export function openPanel(title, content, given = {}) {
  const panel = byId("panel");
  const open = !panel.hidden, scrolled = panel.scrollTop;
  closing = given.onClose || null;
  const heading = h("h2", { tabindex: -1 }, h("bdi", null, title));
  panel.replaceChildren(
    h("div.panel-head", null, heading, h("button.icon", { type: "button", "aria-label": "Close details", onclick: () => closePanel() }, "×")),
    content);
  panel.hidden = false;
  document.body.classList.add("has-panel");
  if (open && !given.focus) panel.scrollTop = scrolled;
  if (given.focus) heading.focus();
}

/** @param {boolean} [silently] */
export function closePanel(silently) {
  const panel = byId("panel");
  if (panel.hidden) return;
  panel.hidden = true;
  document.body.classList.remove("has-panel");
  panel.replaceChildren();
  const told = closing;
  closing = null;
  if (told && !silently) told();
}

export function panelIsOpen() {
  return !byId("panel").hidden;
}
