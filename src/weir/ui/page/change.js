// The form of a change: what the screens What if and Plan are asked about.
import { h } from "./dom.js";
import { send } from "./api.js";

/** @type {[string, string][]} */
export const KINDS = [["taint", "Taint nodes"], ["untaint", "Remove a taint"], ["drain", "Drain nodes"], ["cordon", "Cordon nodes"],
  ["uncordon", "Uncordon nodes"], ["delete-node", "Lose nodes"], ["gates", "Turn feature gates off"], ["apply", "Taint devices by a rule"]];
const EFFECTS = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
const DEVICE_EFFECTS = ["NoExecute", "NoSchedule", "None"];
const NAMES = ["change", "nodes", "selector", "key", "value", "effect", "deviceEffect", "gates"];

/** @typedef {{form: HTMLElement, input: (name: string) => HTMLInputElement, fields: () => void, question: () => Promise<any>, words: () => Record<string, string | null>}} ChangeForm */

/**
 * @param {any} state of the cluster
 * @param {Record<string, any>} query what the fields begin with
 * @param {{kinds: [string, string][], button: string, force: string[], edited: (event: Event) => void, submit: () => void, more?: HTMLElement | null}} given
 *   `force`: the kinds that can be forced; `more`: what stands before the button
 * @returns {ChangeForm}
 */
export function changeForm(state, query, given) {
  const text = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, any>} */ more = {}) =>
    h("label", { "data-for": name }, label, h("input", { name, value: query[name] || "", autocomplete: "off", spellcheck: "false", onchange: given.edited, ...more }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => {
    const select = h("select", { name, onchange: given.edited }, options.map(([value, words]) => h("option", { value }, words)));
    const wanted = query[name] || options[0][0];
    /** @type {HTMLSelectElement} */ (select).value = options.some(([value]) => value === wanted) ? wanted : options[0][0];
    return h("label", { "data-for": name }, label, select);
  };
  const labels = new Set(state.nodes.flatMap((/** @type {any} */ node) => Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)));
  const form = h("form.form.card", { "aria-label": "The change", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); given.submit(); } },
    choice("change", "What", given.kinds),
    text("nodes", "Nodes: names, a selector like pool=spot, or *", { list: "known-nodes", placeholder: "*" }),
    h("datalist", { id: "known-nodes" }, [...state.nodes.map((/** @type {any} */ node) => node.name), ...labels].slice(0, 400).map((value) => h("option", { value }))),
    text("selector", "Devices: driver/pool/device, or driver=…,pool=…", { placeholder: "gpu.example.com/node-0/*" }),
    text("key", "Taint key", { list: "known-keys" }),
    h("datalist", { id: "known-keys" }, state.taintKeys.map((/** @type {string} */ value) => h("option", { value }))),
    text("value", "Value"),
    choice("effect", "Effect", EFFECTS.map((each) => [each, each])),
    choice("deviceEffect", "Effect", DEVICE_EFFECTS.map((each) => [each, each])),
    text("gates", "Gates", { placeholder: state.gateNames.length ? `${state.gateNames[0]}=false` : "" }),
    h("label.check", { "data-for": "force" }, h("input", { type: "checkbox", name: "force", onchange: given.edited }), "Also pods that no controller makes again"),
    given.more, h("button.primary", { type: "submit" }, given.button));
  const input = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.querySelector(`[name="${name}"]`));
  if (!query.key && state.taintKeys.length) input("key").value = guessKey(state.taintKeys);

  function fields() {
    const kind = input("change").value, device = kind === "apply";
    /** @type {Record<string, boolean>} */
    const wanted = {
      change: true, nodes: !device && kind !== "gates", selector: device, key: kind === "taint" || kind === "untaint" || device,
      value: kind === "taint" || device, effect: kind === "taint" || kind === "untaint", deviceEffect: device, gates: kind === "gates", force: given.force.includes(kind),
    };
    for (const each of form.querySelectorAll("[data-for]")) {
      /** @type {HTMLElement} */ (each).hidden = !wanted[/** @type {HTMLElement} */ (each).dataset.for || ""];
    }
  }

  async function question() {
    const kind = input("change").value, value = (/** @type {string} */ name) => input(name).value.trim();
    const force = given.force.includes(kind) && input("force").checked ? { force: true } : {};
    if (kind === "gates") return { change: kind, gates: value("gates") };
    if (kind === "apply") {
      const taint = `${value("key")}${value("value") ? "=" + value("value") : ""}:${value("deviceEffect")}`;
      const made = await send("rule", { selector: value("selector"), taint, allDevices: !value("selector") });
      if (made.cannotSay) throw new Error(made.cannotSay);
      return { change: kind, rule: made.rule, ...force };
    }
    const words = value("nodes");
    const nodes = !words || words === "*" ? { all: true } : /[=!]/.test(words) ? { selector: words } : { names: words.split(/[\s,]+/) };
    const body = { change: kind, nodes, ...force };
    if (kind === "taint") return { ...body, key: value("key"), value: value("value"), effect: value("effect") };
    if (kind === "untaint") return { ...body, key: value("key"), effect: value("effect") };
    return body;
  }

  fields();
  return { form, input, fields, question, words: () => Object.fromEntries(NAMES.map((name) => [name, input(name).value || null])) };
}

/** @param {string[]} keys */
function guessKey(keys) {
  return keys.find((key) => !key.startsWith("node.kubernetes.io/")) || keys[0];
}
