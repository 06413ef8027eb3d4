// Elements, text and small habits of the page. Everything that comes from a cluster becomes text, never markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element.
 * @param {string} name tag, with classes behind dots: "div.card.wide"
 * @param {Record<string, any> | null} [given] attributes, and listeners by names that begin with "on"
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(name, given, ...children) {
  const [tag, ...classes] = name.split(".");
  const found = document.createElement(tag);
  if (classes.length) found.className = classes.join(" ");
  give(found, given);
  put(found, children);
  return found;
}

/**
 * Make an element of a drawing.
 * @param {string} name
 * @param {Record<string, any> | null} [given]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(name, given, ...children) {
  const [tag, ...classes] = name.split(".");
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) found.setAttribute("class", classes.join(" "));
  give(found, given);
  put(found, children);
  return found;
}

/** @param {Element} element @param {Record<string, any> | null | undefined} given */
function give(element, given) {
  for (const [key, value] of Object.entries(given || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
}

/** @param {Element} element @param {(Child | Child[])[]} children */
function put(element, children) {
  for (const each of children.flat()) {
    if (each === null || each === undefined || each === false) continue;
    element.append(each instanceof Node ? each : String(each));
  }
}

/** Show *children* in place of what is there. @param {Element} element @param {...(Child | Child[])} children */
export function refill(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/** Say something to those who listen instead of looking. @param {string} text */
export function announce(text) {
  byId("said").textContent = text;
}

/** @param {string} text @param {HTMLElement} button */
export async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const area = h("textarea.unseen", { value: text });
    document.body.append(area);
    /** @type {HTMLTextAreaElement} */ (area).select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
    area.remove();
  }
  announce("Copied");
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** A text that can be copied. @param {string[]} lines @param {string} label */
export function copyable(lines, label) {
  const text = lines.join("\n");
  /** @type {HTMLElement} */
  const button = h("button.small", { type: "button", onclick: () => copy(text, button) }, "Copy");
  return h("div.code", null,
    h("div.code-head", null, h("span", null, label), button),
    h("pre", { tabindex: 0, "aria-label": label }, lines.map((line) =>
      h("span." + (/^(@@|\+\+\+ |--- )/.test(line) ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "ctx"),
        null, line + "\n"))));
}

/**
 * What a screen says when there is nothing to show, and the commands that give it something.
 * @param {string} title @param {string} words @param {[string, string][]} ways what to do, and how
 */
export function emptyState(title, words, ways) {
  return h("div.card.empty", null, h("h2", null, title), h("p", null, words),
    h("ul", null, ways.map(([what, how]) => h("li", null, `${what}: `, h("code", null, how)))));
}

/** Show words beside what the pointer or the focus is on. @param {Element} at @param {string} text */
export function showTip(at, text) {
  const tip = byId("tip");
  if (!text) return hideTip();
  tip.textContent = text;
  tip.hidden = false;
  const place = at.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(place.left, innerWidth - own.width - 8));
  const below = place.bottom + 6 + own.height < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? place.bottom + 6 : Math.max(8, place.top - own.height - 6)}px`;
}

export function hideTip() {
  byId("tip").hidden = true;
}

/** @param {number} number @param {string} noun */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** A figure with its words below it. @param {any} value @param {string} words */
export function number(value, words) {
  return h("div.number", null, h("b", null, value), h("span", null, words));
}

/** A time in words. @param {number | null} seconds */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "for ever";
  const whole = Math.round(seconds);
  if (whole < 1) return "at once";
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 6) / 10} min`.replace(".0 ", " ");
  return `${Math.round(whole / 360) / 10} h`.replace(".0 ", " ");
}
