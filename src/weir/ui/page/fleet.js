// The device fleet: every device a tile, who has it, what is wrong with it, and what a taint would do.
import { announce, copyable, counted, emptyState, h, hideTip, showTip } from "./dom.js";
import { ask, isFrozen, send } from "./api.js";
import { address, remember, route } from "./route.js";
import { SNAPSHOT } from "./verdicts.js";
import { openPanel, panelIsOpen } from "./panel.js";
import { guarded } from "./rights.js";

/** @type {Record<string, {shape: string, word: string}>} */
const STATES = {
  free: { shape: "○", word: "free" }, used: { shape: "●", word: "allocated" }, looked: { shape: "◌", word: "marked, without effect" },
  noschedule: { shape: "▲", word: "tainted, new pods are kept off" }, noexecute: { shape: "✖", word: "tainted, pods are evicted" }, unknown: { shape: "?", word: "unknown" },
};
/** States of a device that keep pods off it, worst first: groups with them come first. */
const FAULTS = ["noexecute", "noschedule", "unknown"];
/** Pixels: a tile with its gap, a line of tiles, the name and bar above the first of a group, a column without tiles. */
const TILE = 39, LINE = 34, HEAD = 32, NARROWEST = 240;
/** @type {any} */
let fleet = null;
/** @type {any} */
let state = null;
/** @type {any[]} */
let lines = [];
let chosen = new Set(), lastChosen = -1, at = 0, drawn = "";
let printing = false;
for (const [name, on] of /** @type {[string, boolean][]} */ ([["beforeprint", true], ["afterprint", false]])) {
  addEventListener(name, () => { printing = on; if (parts.host && parts.host.isConnected && lines.length) paint(true); });
}
/** @type {any[]} */
let order = [];
/** @type {Record<string, HTMLElement>} */
let parts = {};

export const fleetScreen = { title: "Devices", draw, refresh };

/** @param {HTMLElement} main @param {any} now */
async function draw(main, now) {
  state = now;
  const { query } = route();
  chosen = new Set((query.sel || "").split("|").filter(Boolean));
  parts = {
    q: h("input", { type: "search", name: "q", value: query.q || "", placeholder: "Search devices, pods  /", "aria-label": "Search devices", autocomplete: "off", oninput: arrange }),
    group: h("select", { name: "group", "aria-label": "Group by", onchange: arrange }),
    show: h("select", { name: "show", "aria-label": "Which devices", onchange: arrange }, h("option", { value: "" }, "All states"),
      Object.entries(STATES).map(([value, look]) => h("option", { value }, look.word))),
    count: h("span.quiet", { role: "status" }), toolbar: h("div.toolbar"),
    empty: emptyState("This cluster publishes no devices", "Here are the devices that drivers publish in ResourceSlices, who uses them and what taints them. To have some:",
      [["simulate a driver", "weir up --nodes 2 --gpus 8"], SNAPSHOT]),
    body: h("div.fleet-body"), legend: h("ul.legend", { "aria-label": "What the tiles say" }),
    act: h("button", { type: "button", onclick: () => openChosen(true) }, "Chosen devices …"),
  };
  parts.body.style.position = "relative";
  parts.host = h("div.fleet", { role: "group", "aria-label": "Devices; arrow keys move, space chooses, enter opens", onscroll: () => paint(), onkeydown: key }, parts.body);
  new ResizeObserver(() => arrange()).observe(parts.host);
  parts.toolbar.append(parts.q, parts.group, parts.show, parts.act, parts.count);
  parts.empty.hidden = true;
  main.replaceChildren(h("section.screen", { "aria-label": "The device fleet" }, parts.toolbar, parts.empty, parts.host, parts.legend));
  if (query.show) /** @type {HTMLSelectElement} */ (parts.show).value = query.show;
  await load();
  if (chosen.size) openChosen(false);
}

/** @param {any} now */
async function refresh(now) {
  state = now;
  if (!parts.host || !parts.host.isConnected) return;
  await load();
  if (panelIsOpen() && chosen.size && !document.querySelector("#panel input:focus, #panel [data-preview]")) openChosen(false);
}

async function load() {
  fleet = await ask("fleet");
  if (fleet.cannotSay) {
    parts.host.replaceWith(h("p.cannot", { role: "status" }, h("span", { "aria-hidden": "true" }, "? "), fleet.cannotSay));
    return;
  }
  const select = /** @type {HTMLSelectElement} */ (parts.group), wanted = select.value || route().query.group || "node";
  const options = [["node", "By node"], ["driver", "By driver"], ["pool", "By pool"], ["state", "By state"], ...fleet.telling.map((/** @type {string} */ each) => [`a:${each}`, `By ${each}`])];
  select.replaceChildren(...options.map(([value, words]) => h("option", { value }, words)));
  select.value = options.some(([value]) => value === wanted) ? wanted : "node";
  parts.legend.replaceChildren(...Object.entries(STATES).map(([name, look]) => h("li", null, h(`span.key.t-${name}`, { "aria-hidden": "true" }, look.shape), look.word)));
  arrange();
}

/** @param {any} device */
function stateOf(device) {
  const effects = device.taints.map((/** @type {any} */ each) => each.effect);
  if (effects.includes("NoExecute")) return "noexecute";
  if (effects.includes("NoSchedule")) return "noschedule";
  if (!device.published || device.poolProblem) return "unknown";
  if (effects.length) return "looked";
  return device.claims.length ? "used" : "free";
}

/** @param {any} device @param {string} by */
function groupOf(device, by) {
  if (by === "state") return STATES[stateOf(device)].word;
  if (by.startsWith("a:")) {
    const value = device.attributes[by.slice(2)];
    return value ? String(Object.values(value)[0]) : "does not say";
  }
  return device[by] || (by === "node" ? "no node of its own" : "");
}

function arrange() {
  if (!fleet || fleet.cannotSay) return;
  const value = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (parts[name]).value;
  const words = value("q").toLowerCase().split(/\s+/).filter(Boolean), by = value("group"), show = value("show");
  remember({ q: value("q"), group: by === "node" ? null : by, show });
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const device of fleet.devices.devices) {
    if (show && stateOf(device) !== show) continue;
    if (words.length) {
      const text = [device.device, device.node, ...device.claims.flatMap((/** @type {any} */ c) => [c.claim, ...c.pods]), ...device.taints.map((/** @type {any} */ t) => t.key)].join(" ").toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    const name = groupOf(device, by);
    const found = groups.get(name);
    if (found) found.push(device); else groups.set(name, [device]);
  }
  const sorted = [...groups].map(([name, devices]) => ({ name, devices, counts: countStates(devices) })).sort(worstFirst);
  const room = Math.max(TILE, parts.host.clientWidth - 24), most = Math.max(1, ...sorted.map(({ devices }) => devices.length));
  const columns = Math.max(1, Math.floor((room + 24) / (Math.max(NARROWEST, most * TILE) + 24)));
  const wide = Math.max(1, Math.floor((room - 24 * (columns - 1)) / columns / TILE));
  lines = [];
  order = [];
  let top = 6;
  for (let from = 0; from < sorted.length; from += columns) {
    const side = sorted.slice(from, from + columns), deep = columns > 1 ? 1 : Math.ceil(side[0].devices.length / wide);
    for (let part = 0; part < deep; part += 1) {
      const blocks = side.map((group) => ({ group, head: part === 0, devices: group.devices.slice(part * wide, (part + 1) * wide), first: 0 }));
      const line = { top, columns, first: order.length, blocks, devices: blocks.flatMap(({ devices }) => devices) };
      for (const block of blocks) { block.first = order.length; order.push(...block.devices); }
      lines.push(line);
      top += LINE + (part === 0 ? HEAD : 0) + (part === deep - 1 ? 8 : 0);
    }
  }
  parts.body.style.height = `${top}px`;
  at = Math.max(0, Math.min(at, order.length - 1));
  const all = fleet.devices.devices;
  const marked = all.filter((/** @type {any} */ each) => stateOf(each) === "looked").length;
  parts.count.textContent = `${order.length.toLocaleString("en")} of ${counted(all.length, "device")}, ${withFaults(all).length} with faults${marked ? `, ${marked} marked` : ""}`;
  parts.host.hidden = parts.legend.hidden = parts.toolbar.hidden = !all.length;
  parts.empty.hidden = all.length > 0;
  /** @type {HTMLButtonElement} */ (parts.act).disabled = !chosen.size;
  parts.act.textContent = chosen.size ? `${counted(chosen.size, "chosen device")} …` : "Choose devices";
  paint(true);
}

/** @param {boolean} [anew] */
function paint(anew) {
  const host = parts.host, all = printing && lines.length < 2000;
  const from = host.scrollTop - 200, to = host.scrollTop + host.clientHeight + 200;
  const shown = all ? lines : lines.filter(({ top }) => top >= from && top <= to);
  const range = shown.length ? `${shown[0].top},${shown[shown.length - 1].top}` : "";
  if (drawn === range && !anew) return;
  drawn = range;
  const had = host.contains(document.activeElement) && document.activeElement !== host;
  parts.body.replaceChildren(...shown.map((line) => {
    const row = h("div.fleet-line", null, line.blocks.map(block));
    row.style.top = `${line.top}px`;
    row.style.gridTemplateColumns = `repeat(${line.columns}, minmax(0, 1fr))`;
    return row;
  }));
  if (had) focusTile(false);
}

/** The devices that a taint or a missing slice keeps pods off. @param {any[]} devices */
export function withFaults(devices) {
  return devices.filter((each) => FAULTS.includes(stateOf(each)));
}

/** How many of *devices* are in each state. @param {any[]} devices @returns {Record<string, number>} */
function countStates(devices) {
  /** @type {Record<string, number>} */
  const counts = Object.fromEntries(Object.keys(STATES).map((name) => [name, 0]));
  for (const device of devices) counts[stateOf(device)] += 1;
  return counts;
}

/** Groups with the worst faults first, then by name. @param {any} a @param {any} b */
function worstFirst(a, b) {
  const worse = FAULTS.map((name) => b.counts[name] - a.counts[name]).find(Boolean);
  return worse || a.name.localeCompare(b.name, "en", { numeric: true });
}

/** One group, or a line of a large one: its name, a bar of its states and its tiles. @param {any} given */
function block({ group, head, devices, first }) {
  return h("div.fleet-block", null, head ? groupHead(group) : null,
    h("div.tiles", null, devices.map((/** @type {any} */ device, /** @type {number} */ each) => tile(device, first + each))));
}

/** @param {any} group */
function groupHead({ name, devices, counts }) {
  const used = devices.filter((/** @type {any} */ each) => each.claims.length).length, faulty = FAULTS.reduce((sum, each) => sum + counts[each], 0);
  const words = `${used} of ${devices.length} used`, faults = faulty ? counted(faulty, "fault") : "";
  const bar = h("div.fleet-bar", { "aria-hidden": "true" }, [...FAULTS, "looked", "used", "free"].filter((each) => counts[each]).map((each) => {
    const part = h(`span.t-${each}`);
    part.style.flexGrow = counts[each];
    return part;
  }));
  return h("div.fleet-head", { title: [name, words, faults].filter(Boolean).join("\n") },
    h("div.fleet-words", null, h("span.fleet-name", null, h("b", null, h("bdi", null, name))), h("span.quiet", null, words), faults ? h("span.bad", null, faults) : null), bar);
}

/** @param {any} device @param {number} index */
function tile(device, index) {
  const kind = stateOf(device), look = STATES[kind];
  const said = describe(device);
  const tell = (/** @type {Event} */ e) => showTip(/** @type {Element} */ (e.currentTarget), said);
  return h(`button.tile.t-${kind}`, {
    type: "button", tabindex: index === at ? 0 : -1, "data-index": index, "aria-pressed": chosen.has(device.device) ? "true" : "false",
    "aria-label": `${device.device}: ${said.split("\n").slice(1).join(", ")}`,
    onmouseenter: tell, onmouseleave: hideTip, onfocus: tell, onblur: hideTip,
    onclick: (/** @type {MouseEvent} */ e) => { at = index; choose(index, e.shiftKey); },
  }, h("span", { "aria-hidden": "true" }, look.shape), h("span.index", { "aria-hidden": "true" }, (/\d{1,3}$/.exec(device.name) || [""])[0]));
}

/** @param {any} device */
function describe(device) {
  const parted = [device.device, STATES[stateOf(device)].word];
  for (const claim of device.claims) parted.push(`claim ${claim.claim}${claim.pods.length ? `, pods ${claim.pods.join(", ")}` : ""}`);
  for (const taint of device.taints) parted.push(taintWords(taint));
  if (device.poolProblem) parted.push(device.poolProblem);
  return parted.join("\n");
}

/** @param {any} taint */
function taintWords(taint) {
  const from = taint.origin.rule ? `rule ${taint.origin.rule}` : "the driver";
  const held = taint.tolerated === null ? "" : taint.tolerated ? ", tolerated" : ", not tolerated";
  return `${taint.key}${taint.value ? "=" + taint.value : ""}:${taint.effect} by ${from}${taint.timeAdded ? `, since ${taint.timeAdded}` : ""}${held}`;
}

/** @param {number} index @param {boolean} range */
function choose(index, range) {
  const name = order[index].device;
  if (range && lastChosen >= 0) {
    for (let each = Math.min(lastChosen, index); each <= Math.max(lastChosen, index); each += 1) chosen.add(order[each].device);
  } else if (chosen.has(name)) chosen.delete(name);
  else chosen.add(name);
  lastChosen = index;
  remember({ sel: [...chosen].slice(0, 50).join("|") || null });
  announce(`${counted(chosen.size, "device")} chosen`);
  arrange();
  if (chosen.size) openChosen(false);
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (!order.length) return;
  const line = lines.findIndex((each) => at >= each.first && at < each.first + each.devices.length);
  const column = at - lines[line].first;
  const inLine = (/** @type {number} */ to) => {
    const found = lines[Math.max(0, Math.min(lines.length - 1, to))];
    return found.first + Math.min(column, found.devices.length - 1);
  };
  /** @type {Record<string, number>} */
  const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: inLine(line + 1), ArrowUp: inLine(line - 1), PageDown: inLine(line + 10), PageUp: inLine(line - 10), Home: 0, End: order.length - 1 };
  if (event.key in moves) {
    event.preventDefault();
    at = Math.max(0, Math.min(order.length - 1, moves[event.key]));
    focusTile(true);
  } else if (event.key === " ") {
    event.preventDefault();
    choose(at, event.shiftKey);
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (!chosen.size) choose(at, false);
    openChosen(true);
  }
}

/** @param {boolean} scroll */
function focusTile(scroll) {
  if (scroll) {
    const { top } = lines.find((each) => at >= each.first && at < each.first + each.devices.length), host = parts.host;
    if (top < host.scrollTop + 6) host.scrollTop = top - 6;
    if (top + HEAD + LINE > host.scrollTop + host.clientHeight) host.scrollTop = top + HEAD + LINE - host.clientHeight;
    paint(true);
  }
  for (const each of parts.body.querySelectorAll(".tile")) /** @type {HTMLElement} */ (each).tabIndex = -1;
  const found = /** @type {HTMLElement | null} */ (parts.body.querySelector(`[data-index="${at}"]`));
  if (found) { found.tabIndex = 0; found.focus({ preventScroll: true }); }
}

// ── the chosen ──

/** @param {boolean} focus */
function openChosen(focus) {
  const devices = fleet.devices.devices.filter((/** @type {any} */ each) => chosen.has(each.device));
  const rules = new Set(devices.flatMap((/** @type {any} */ each) => each.taints.map((/** @type {any} */ t) => t.origin.rule)).filter(Boolean));
  const content = h("div.details", null,
    devices.length === 1 ? facts(devices[0]) : h("p", null, `${devices.filter((/** @type {any} */ d) => d.claims.length).length} of them are allocated.`),
    devices.length > 1 ? h("details.group", null, h("summary", null, "Which"), h("ul", null, devices.slice(0, 60).map((/** @type {any} */ each) => h("li", null, h("bdi", null, each.device))))) : null,
    isFrozen ? null : taintForm(),
    rules.size ? h("h3", null, "Rules that taint them") : null,
    fleet.rules.filter((/** @type {any} */ rule) => rules.has(rule.name)).map(ruleCard),
    health(devices));
  openPanel(devices.length === 1 ? devices[0].device : counted(devices.length, "device"), content,
    { focus, onClose: () => { chosen = new Set(); remember({ sel: null }); arrange(); focusTile(false); } });
}

/** @param {any} device */
function facts(device) {
  const pairs = [["State", STATES[stateOf(device)].word], ["Node", device.node || "none of its own"], ["Driver", device.driver], ["Pool", device.pool],
    ...Object.entries(device.attributes).map(([name, value]) => [name, String(Object.values(/** @type {any} */ (value))[0])]),
    ...Object.entries(device.capacity).map(([name, value]) => [name, String(/** @type {any} */ (value).value)])];
  return h("div", null,
    h("dl", null, pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, h("bdi", null, value))]).flat()),
    device.claims.map((/** @type {any} */ claim) => h("p", null, "Claim ", h("bdi", null, claim.claim), claim.pods.length ? ", used by " : "",
      claim.pods.map((/** @type {string} */ pod) => h("a", { href: address(`pod/${pod.split("/").map(encodeURIComponent).join("/")}`) }, pod)))),
    device.taints.map((/** @type {any} */ taint) => h("p.warn", null, taintWords(taint), taint.podsLeaveAt ? `; pods are evicted at ${taint.podsLeaveAt}` : "")));
}

function taintForm() {
  const key = h("input", { name: "taint-key", value: "weir.dev/drain", autocomplete: "off", spellcheck: "false" });
  const effect = h("select", { name: "taint-effect" }, [["None", "None: only look"], ["NoSchedule", "NoSchedule: no new pods"], ["NoExecute", "NoExecute: pods are evicted"]].map(([value, words]) => h("option", { value }, words)));
  const place = h("div");
  const ask = async () => {
    try {
      place.dataset.preview = "1";
      const found = await send("rules", { devices: [...chosen], taint: `${/** @type {HTMLInputElement} */ (key).value}:${/** @type {HTMLSelectElement} */ (effect).value}` });
      place.replaceChildren(preview(found));
    } catch (error) {
      place.replaceChildren(h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message));
    }
  };
  return h("div", null, h("h3", null, chosen.size === 1 ? "Taint it" : "Taint them"),
    h("form.form", { onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); ask(); } },
      h("label", null, "Key, or key=value", key), h("label", null, "Effect", effect), h("button.primary", { type: "submit" }, "Preview")), place);
}

/** @param {any} found */
function preview(found) {
  if (found.cannotSay) return h("p.cannot", null, found.cannotSay);
  const write = state.live && !state.readOnly && !isFrozen;
  return h("div", null,
    found.rules.map((/** @type {any} */ rule) => h("div", null,
      h("ul", null, rule.said.map((/** @type {string} */ each) => h("li", null, each))),
      rule.stay.length ? h("p", null, `Tolerate it and stay: ${rule.stay.join(", ")}`) : null,
      copyable(rule.yaml.split("\n"), "DeviceTaintRule"), copyable([rule.commands[0]], "The same by a command"))),
    write ? guarded(h("button.danger", { type: "button", onclick: () => confirmRules(found.rules) }, found.rules[0].rule.spec.taint.effect === "NoExecute" ? "Drain …" : "Write …"),
      ...found.rules.slice(0, 10).map((/** @type {any} */ each) => ({ question: { change: "apply", rule: each.rule } }))) : null);
}

/** @param {any[]} rules */
function confirmRules(rules) {
  const pods = new Set(rules.flatMap((rule) => rule.pods.map((/** @type {any} */ each) => each.pod)));
  const effect = rules[0].rule.spec.taint.effect;
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "sure" },
    h("h2", { id: "sure" }, `Write ${counted(rules.length, "rule")}?`), h("p", null, h("bdi", null, state.cluster)),
    h("p", null, effect === "NoExecute" ? `${counted(pods.size, "pod")} would be evicted.` : `No pod is evicted; with NoExecute ${counted(pods.size, "pod")} would be.`),
    h("div.row", null, h("button.danger", { type: "button", id: "sure-yes", onclick: async () => { dialog.close(); await writeRules(rules); } }, "Yes, write"),
      h("button", { type: "button", onclick: () => dialog.close() }, "No"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {any[]} rules */
async function writeRules(rules) {
  try {
    for (const each of rules) await send("apply", { question: { change: "apply", rule: each.rule }, confirm: "kubectl apply -f rule.yaml" });
    announce("Written");
    await load();
    openChosen(true);
  } catch (error) {
    openPanel("Not written", h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message), { focus: true });
  }
}

/** @param {any} rule */
function ruleCard(rule) {
  const progress = rule.conditions.find((/** @type {any} */ each) => each.type === "EvictionInProgress");
  const write = state.live && !state.readOnly && !isFrozen;
  return h("details.group", { open: true }, h("summary", null, h("bdi", null, rule.name), ` · ${rule.taint.key}:${rule.taint.effect}`),
    progress ? h("p", { role: "status" }, progress.message) : null, copyable(rule.yaml.split("\n"), "DeviceTaintRule"),
    write ? guarded(h("button", { type: "button", onclick: async () => {
      await send("unrule", { name: rule.name, confirm: `kubectl delete devicetaintrule ${rule.name}` });
      announce(`${rule.name} deleted`);
      await load();
      openChosen(false);
    } }, "Untaint"), { unrule: rule.name }) : null);
}

/** @param {any[]} devices */
function health(devices) {
  const pools = new Set(devices.map((each) => each.pool));
  const told = fleet.events.filter((/** @type {any} */ each) => devices.some((d) => (each.message || "").includes(d.name)) || [...pools].some((pool) => each.about.includes(pool)));
  const marks = devices.flatMap((each) => each.taints.filter((/** @type {any} */ t) => t.timeAdded).map((/** @type {any} */ t) => ({ time: t.timeAdded, text: `${each.name}: ${taintWords(t)}` })));
  const all = [...marks, ...told.map((/** @type {any} */ each) => ({ time: each.time || "", text: `${each.reason}: ${each.message}` }))].sort((a, b) => a.time.localeCompare(b.time));
  return all.length ? h("div", null, h("h3", null, "Health over time"), h("ol.life", null, all.slice(-30).map((each) => h("li", null, h("time", null, each.time), h("span", null, each.text))))) : null;
}
