// The fit matrix: which workloads fit on which nodes, why not, and what would help.
import { announce, counted, emptyState, h, hideTip, refill, showTip } from "./dom.js";
import { ask, isFrozen, send } from "./api.js";
import { withFaults } from "./fleet.js";
import { Grid } from "./grid.js";
import { address, remember, route } from "./route.js";
import { SNAPSHOT, VERDICTS } from "./verdicts.js";
import { openPanel, panelIsOpen } from "./panel.js";
import { workloadDetails } from "./reasons.js";

/** @type {any} */
let matrix = null;
/** @type {any[]} */
let rows = [];
/** @typedef {{workload: string, choice: number, node: string}} Try */
/** @type {Try[]} */
let tries = [];
/** @type {Grid | null} */
let grid = null;
/** @type {Record<string, HTMLElement>} */
let parts = {};

export const fitScreen = { title: "Fit", draw, refresh };

/** @param {HTMLElement} main */
async function draw(main) {
  const { query } = route();
  tries = readTries(query.try);
  const input = (/** @type {string} */ name, /** @type {Record<string, any>} */ given) =>
    h("input", { name, value: query[name] || "", autocomplete: "off", spellcheck: "false", ...given, oninput: filter });
  const choice = (/** @type {string} */ name, /** @type {string} */ label) =>
    h("select", { name, "aria-label": label, title: label, onchange: filter }, h("option", { value: "" }, label));
  parts = {
    q: input("q", { type: "search", placeholder: "Search workloads  /", "aria-label": "Search workloads" }),
    ns: choice("ns", "All namespaces"), kind: choice("kind", "All owners"), key: choice("key", "All keys"),
    only: h("input", { type: "checkbox", id: "only", name: "only", onchange: filter }),
    count: h("span.quiet", { role: "status" }, "Loading …"),
    empty: h("div", { hidden: true }), toolbar: h("div.toolbar"),
    bar: h("div.hypothesis", { hidden: true }),
    numbers: h("ul.summary", { "aria-label": "Summary", hidden: true }), faults: h("li", { hidden: true }),
    waits: h("details.waits", { hidden: true, open: innerWidth >= 700 }),
    legend: h("ul.legend", { "aria-label": "What the cells say" }),
  };
  if (query.only) /** @type {HTMLInputElement} */ (parts.only).checked = true;
  grid = new Grid({ label: "Workloads and groups of equal nodes", rowHeight: 38, headHeight: 92, corner: "Workload" });
  refill(parts.toolbar, parts.q, parts.ns, parts.kind, parts.key, h("label.check", { for: "only" }, parts.only, "Only what is not well"), parts.count);
  main.replaceChildren(h("section.screen", { "aria-label": "What fits where" }, parts.numbers, parts.waits, parts.toolbar,
    parts.bar, parts.empty, grid.element, parts.legend));
  await load();
  if (query.w) openWorkload(query.w, false, query.n);
}

async function refresh() {
  if (grid && grid.element.isConnected) {
    await load();
    const { query } = route();
    if (query.w && panelIsOpen()) openWorkload(query.w, false, query.n);
  }
}

async function load() {
  const found = tries.length && !isFrozen ? await send("try", { tries }).catch((error) => {
    announce(error.message);
    tries = [];
    return ask("matrix");
  }) : await ask("matrix");
  matrix = found;
  if (found.cannotSay) return cannotSay(found.cannotSay);
  const nothing = !found.workloads.length;
  parts.empty.hidden = !nothing && found.groups.length > 0;
  refill(parts.empty, nothing
    ? emptyState("This cluster has no workloads", "Here is shown which workloads fit on which nodes, and why not. To have some:", [["create a workload", "kubectl create deployment web --image nginx"], SNAPSHOT])
    : emptyState("This cluster has no nodes", "Nothing fits anywhere. To have some:", [["add nodes", "weir node add --count 3"], SNAPSHOT]));
  if (grid) grid.element.hidden = nothing;
  parts.toolbar.hidden = parts.legend.hidden = nothing;
  summarize();
  countFaults();
  if (grid) grid.given.headHeight = 34 + 14 * Math.min(8, Math.max(3, ...found.groups.map((/** @type {any} */ each) => each.title.split(" · ").length)));
  fill("ns", [...new Set(found.workloads.map((/** @type {any} */ each) => each.namespace))].sort());
  fill("kind", [...new Set(found.workloads.map((/** @type {any} */ each) => each.kind))].sort());
  fill("key", [...new Set(found.workloads.flatMap((/** @type {any} */ each) => each.keys))].sort());
  const used = new Set(found.workloads.flatMap((/** @type {any} */ each) => each.cells.map((/** @type {number[]} */ c) => c[0])));
  const counts = found.workloads.some((/** @type {any} */ each) => each.cells.some((/** @type {number[]} */ c) => c[3]));
  refill(parts.legend, found.verdicts.filter((/** @type {string} */ _, /** @type {number} */ at) => used.has(at))
    .map((/** @type {string} */ name) => h("li", null, h(`span.key.v-${name}`, { "aria-hidden": "true" }, VERDICTS[name].shape), VERDICTS[name].long)),
    counts ? h("li", null, h("span.key", { "aria-hidden": "true" }, h("span.here", null, "2")), "how many of its pods are there") : null);
  parts.bar.hidden = !tries.length;
  parts.bar.replaceChildren(h("strong", null, "Trying"), h("span", null, (found.hypothesis || []).join("; ")),
    h("button.small", { type: "button", onclick: () => setTries([]) }, "Undo"));
  filter();
}

/** The cluster in numbers, and why workloads wait. */
function summarize() {
  const all = matrix.workloads, waiting = all.filter((/** @type {any} */ each) => each.pending);
  const taking = (/** @type {any} */ each) => each.cells.filter((/** @type {number[]} */ cell) => cell[1] > 0).length;
  const last = matrix.groups.length > 1 ? all.filter((/** @type {any} */ each) => taking(each) === 1).length : 0;
  const figure = (/** @type {string} */ number, /** @type {string} */ words, /** @type {string} */ title) => h("li", { title }, h("b", null, number), ` ${words}`);
  parts.numbers.hidden = !all.length || !matrix.groups.length;
  refill(parts.numbers,
    figure(`${all.filter((/** @type {any} */ each) => each.fits).length} of ${all.length}`, "workloads fit", "At least one node would take one more pod of them"),
    figure(`${waiting.length}`, waiting.length === 1 ? "waits" : "wait", "Pods of them have no node"),
    last ? figure(`${last}`, last === 1 ? "fits one group of nodes only" : "fit one group of nodes only", "Another value of one taint or label there, and no node takes them") : null, parts.faults);
  parts.waits.hidden = !waiting.length || parts.numbers.hidden;
  /** @type {Map<string, any[]>} */
  const reasons = new Map();
  for (const each of waiting) reasons.set(whyWaiting(each), [...(reasons.get(whyWaiting(each)) || []), each]);
  const most = 4, rest = [...reasons.values()].slice(most).flat().length;
  refill(parts.waits, h("summary", null, `${counted(waiting.length, "workload")} ${waiting.length === 1 ? "waits" : "wait"}: why`),
    h("ul", null, [...reasons].slice(0, most).map(([why, those]) => h("li", null,
      those.slice(0, 3).map((each) => h("button.small", { type: "button", title: each.id, onclick: () => openWorkload(each.id, true) }, h("bdi", null, each.name))),
      h("span", null, those.length > 3 ? `and ${counted(those.length - 3, "more workload")}: ${why}` : why)))),
    rest ? h("p.quiet", null, `… and ${counted(rest, "more workload")} for other reasons: “Only what is not well” lists them.`) : null);
}

/** Why pods of a workload wait, in one line: what is nearest to a fit, or else what most nodes say. @param {any} each */
function whyWaiting(each) {
  if (each.text) return each.text;
  const nodes = matrix.groups.reduce((/** @type {number} */ sum, /** @type {any} */ group) => sum + group.count, 0);
  const taking = each.cells.reduce((/** @type {number} */ sum, /** @type {number[]} */ cell) => sum + cell[1], 0);
  if (taking) return `${counted(taking, "node")} would take one more pod now; not created or not scheduled yet`;
  /** @type {Map<number, {near: boolean, count: number}>} */
  const reasons = new Map();
  each.cells.forEach((/** @type {number[]} */ [verdict, , text], /** @type {number} */ column) => {
    const found = reasons.get(text) || { near: matrix.verdicts[verdict] === "change", count: 0 };
    found.count += matrix.groups[column].count;
    reasons.set(text, found);
  });
  const [[text, { count }]] = [...reasons].sort(([, a], [, b]) => Number(b.near) - Number(a.near) || b.count - a.count);
  return `${matrix.texts[text]} (${count} of ${counted(nodes, "node")}${reasons.size > 1 ? `; ${counted(reasons.size - 1, "other reason")}` : ""})`;
}

/** Say how many devices have faults, once that is known: the matrix does not wait for it. */
async function countFaults() {
  const place = parts.faults, found = await ask("fleet").catch(() => null);
  const all = found && !found.cannotSay ? found.devices.devices : [], faulty = withFaults(all).length;
  place.hidden = !all.length;
  refill(place, h("a", { href: address("devices") }, h("b", null, `${faulty} of ${all.length.toLocaleString("en")}`), " devices with faults"));
}

/** @param {string} text */
function cannotSay(text) {
  if (grid) grid.element.replaceWith(h("p.cannot", { role: "status" }, h("span", { "aria-hidden": "true" }, "? "), text));
}

/** @param {string} name @param {string[]} values */
function fill(name, values) {
  const select = /** @type {HTMLSelectElement} */ (parts[name]);
  const wanted = select.value || route().query[name] || "";
  const first = /** @type {Element} */ (select.firstElementChild);
  select.replaceChildren(first, ...values.map((value) => h("option", { value }, value)));
  select.value = values.includes(wanted) ? wanted : "";
}

function filter() {
  if (!matrix || matrix.cannotSay || !grid) return;
  const value = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (parts[name]).value;
  const words = value("q").toLowerCase().split(/\s+/).filter(Boolean);
  const [ns, kind, key] = [value("ns"), value("kind"), value("key")];
  const only = /** @type {HTMLInputElement} */ (parts.only).checked;
  rows = matrix.workloads.filter((/** @type {any} */ each) =>
    (!ns || each.namespace === ns) && (!kind || each.kind === kind) && (!key || each.keys.includes(key))
    && (!only || each.pending || !each.fits)
    && words.every((word) => each.id.toLowerCase().includes(word) || each.keys.some((/** @type {string} */ k) => k.toLowerCase().includes(word))));
  remember({ q: value("q"), ns, kind, key, only: only ? "1" : null });
  parts.count.textContent = `${rows.length.toLocaleString("en")} of ${counted(matrix.workloads.length, "workload")}, `
    + `${counted(matrix.groups.reduce((/** @type {number} */ sum, /** @type {any} */ g) => sum + g.count, 0), "node")}`;
  grid.show({ rows: rows.length, columns: matrix.groups.length, head, name, cell, open: (row, column) => openWorkload(rows[row].id, true, matrix.groups[column].nodes[0]) });
}

/** @param {number} column */
function head(column) {
  const group = matrix.groups[column];
  const parted = group.title.split(" · ");
  const full = [`${counted(group.count, "node")}`, ...parted, group.nodes.slice(0, 5).join(", ") + (group.count > 5 ? ", …" : "")].join("\n");
  const tell = (/** @type {Event} */ e) => showTip(/** @type {Element} */ (e.currentTarget), full);
  return h("div.column", { onmouseenter: tell, onclick: tell, onmouseleave: hideTip },
    h("strong", null, `${group.count}×`), h("span.lines", null, parted.map((/** @type {string} */ each) =>
      each.startsWith("⊘") ? taintLine(each) : h("span", null, h("bdi", null, each)))));
}

/** A taint in a narrow column: its effect is cut before its key and value. @param {string} text */
function taintLine(text) {
  const at = text.lastIndexOf(":");
  return h("span.taint", null, h("bdi", null, text.slice(0, at)), h("span.effect", null, text.slice(at)));
}

/** @param {number} row */
function name(row) {
  const each = rows[row];
  const count = each.wanted === null ? `${each.running}` : `${each.running}/${each.wanted}`;
  return h("div" + (each.pending ? ".waiting" : ""), { title: each.id },
    h("span.who", null, h("bdi.name", null, each.name), h("span.sub", null, h("bdi", null, `${each.kind} · ${each.namespace}`), each.tried ? " · tried" : "")),
    h("span.replicas", { title: `${each.running} of its pods have a node${each.pending ? `, ${each.pending} wait` : ""}` },
      count, each.pending ? h("span.pending", null, ` ${each.pending} wait`) : null));
}

/** @param {number} row @param {number} column */
function cell(row, column) {
  const each = rows[row], group = matrix.groups[column], [verdict, fitting, text, here] = each.cells[column];
  const kind = matrix.verdicts[verdict], look = VERDICTS[kind];
  const said = matrix.texts[text];
  const count = kind === "some" ? `${fitting}/${group.count}` : look.word;
  const running = here ? `; ${counted(here, "pod")} of it here` : "";
  const label = `${each.name} on ${group.title}: ${look.long}${kind === "some" ? ` (${fitting} of ${group.count})` : ""}${said ? `: ${said}` : ""}${running}`;
  const tell = (/** @type {Event} */ e) => showTip(/** @type {Element} */ (e.currentTarget),
    `${said || look.long}${kind === "some" ? `\n${fitting} of ${counted(group.count, "node")} fit` : ""}${running.replace("; ", "\n")}`);
  const { w, n } = route().query, open = each.id === w && group.nodes.includes(n);
  return h(`div.v-${kind}`, { "aria-selected": open ? "true" : null, onmouseenter: tell, onmouseleave: hideTip, onfocus: tell, onblur: hideTip },
    h("span.shape", { "aria-hidden": "true" }, look.shape), h("span.word", null, count),
    here ? h("span.here", null, `${here}`) : null, h("span.unseen", null, ` · ${label}`));
}

/** @param {string} id @param {boolean} focus @param {string} [node] */
async function openWorkload(id, focus, node = "") {
  const { w, n } = route().query, again = w === id && (n || "") === node && panelIsOpen();
  remember({ w: id, n: node });
  const given = { focus, onClose: () => { remember({ w: null, n: null }); if (grid) { grid.draw(true); grid.focus(); } } };
  try {
    const found = await ask("explain", node ? { workload: id, node } : { workload: id });
    const onTry = isFrozen ? null : (/** @type {number} */ choice) => setTries([...tries.filter((each) => each.workload !== id), { workload: id, choice, node: found.node }]);
    openPanel(id, workloadDetails(found, { onTry }), given);
  } catch (error) {
    openPanel(id, h("p.cannot", null, /** @type {Error} */ (error).message), given);
  }
  // the panel takes room from the matrix; what is drawn anew because the cluster changed stays where it was scrolled to
  const [row, column] = [rows.findIndex((each) => each.id === id), matrix.groups.findIndex((/** @type {any} */ each) => each.nodes.includes(node))];
  if (grid && again) grid.draw(true);
  else if (grid) grid.reveal(row, column);
}

/** @param {Try[]} wanted */
async function setTries(wanted) {
  tries = wanted;
  remember({ try: wanted.map((each) => `${each.choice}~${each.node}~${each.workload}`).join("|") || null });
  await load();
  announce(wanted.length ? "The matrix shows the change as if it were made" : "The matrix shows the cluster as it is");
}

/** @param {string | undefined} text */
function readTries(text) {
  return (text || "").split("|").filter(Boolean).map((each) => {
    const [choice, node, ...rest] = each.split("~");
    return { workload: rest.join("~"), choice: Number(choice) || 0, node };
  });
}
