// What if? A change before it is made: a slider over the values that matter, and the time after it, lane by lane.
import { announce, byId, copyable, counted, h, refill, s, span } from "./dom.js";
import { ask, frozenData, isFrozen, send } from "./api.js";
import { lane } from "./lanes.js";
import { guarded } from "./rights.js";
import { remember, route } from "./route.js";

const KINDS = [["taint", "Taint nodes"], ["untaint", "Remove a taint"], ["drain", "Drain nodes"], ["cordon", "Cordon nodes"],
  ["uncordon", "Uncordon nodes"], ["delete-node", "Lose nodes"], ["gates", "Turn feature gates off"], ["apply", "Taint devices by a rule"]];
const EFFECTS = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
/** @type {Record<string, string>} */
const SHAPES = { stay: "✓", later: "◔", leave: "✕" };
const DEVICE_EFFECTS = ["NoExecute", "NoSchedule", "None"];

/** @type {any} */
let state = null;
/** @type {any} */
let stops = null;
/** @type {any} */
let answer = null;
/** @type {any} */
let asked = null;
let moment = 0, horizon = 60, playing = 0, turn = 0;
/** @type {Record<string, HTMLElement>} */
let parts = {};

export const timelineScreen = { title: "What if", draw, refresh };

/** @param {HTMLElement} main @param {any} now */
async function draw(main, now) {
  state = now;
  const frozen = isFrozen ? frozenData().whatIf : null;
  /** @type {Record<string, string>} */
  const query = { ...(frozen ? asQuery(frozen.question) : {}), ...route().query };
  const text = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, any>} */ more = {}) =>
    h("label", { "data-for": name }, label, h("input", { name, value: query[name] || "", autocomplete: "off", spellcheck: "false", onchange: again, ...more }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ options) => {
    const select = h("select", { name, onchange: again }, options.map(([value, words]) => h("option", { value }, words)));
    const wanted = query[name] || options[0][0];
    /** @type {HTMLSelectElement} */ (select).value = options.some(([value]) => value === wanted) ? wanted : options[0][0];
    return h("label", { "data-for": name }, label, select);
  };
  const labels = new Set(state.nodes.flatMap((/** @type {any} */ node) => Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)));
  parts = {
    form: h("form.form.card", { "aria-label": "The change", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); again(); } },
      choice("change", "What", KINDS),
      text("nodes", "Nodes: names, a selector like pool=spot, or *", { list: "known-nodes", placeholder: "*" }),
      h("datalist", { id: "known-nodes" }, [...state.nodes.map((/** @type {any} */ node) => node.name), ...labels].slice(0, 400).map((value) => h("option", { value }))),
      text("selector", "Devices: driver/pool/device, or driver=…,pool=…", { placeholder: "gpu.example.com/node-0/*" }),
      text("key", "Taint key", { list: "known-keys" }),
      h("datalist", { id: "known-keys" }, state.taintKeys.map((/** @type {string} */ value) => h("option", { value }))),
      text("value", "Value"),
      choice("effect", "Effect", EFFECTS.map((each) => [each, each])),
      choice("deviceEffect", "Effect", DEVICE_EFFECTS.map((each) => [each, each])),
      text("gates", "Gates", { placeholder: state.gateNames.length ? `${state.gateNames[0]}=false` : "" }),
      h("label.check", { "data-for": "force" }, h("input", { type: "checkbox", name: "force", onchange: again }), "Also pods that no controller makes again"),
      h("button.primary", { type: "submit" }, "Ask the copy")),
    slider: h("div.card", { hidden: true }), result: h("div", { "aria-live": "polite" }), reality: h("div.card", { hidden: true }),
  };
  if (!query.key && state.taintKeys.length) input("key").value = guessKey();
  main.replaceChildren(h("section.screen", { "aria-label": "What would a change do" },
    h("div.split", null, parts.form, h("div.form", null, parts.slider, parts.reality, parts.result))));
  fields();
  if (isFrozen && !frozen) {
    parts.result.replaceChildren(h("p.cannot", null, "This file shows no change: weir ui -o report.html --what-if 'drain node-7' writes one that does."));
    return;
  }
  await again();
}

/** @param {any} now */
async function refresh(now) {
  state = now;
  if (!parts.form || !parts.form.isConnected) return;
  if (!parts.reality.hidden) return reality();
  if (asked) await again();
}

/** @param {any} question */
function asQuery(question) {
  const nodes = question.nodes || {};
  return { change: question.change, key: question.key || "", value: question.value || "", effect: question.effect || "NoExecute", gates: question.gates || "",
    nodes: nodes.all ? "*" : nodes.selector || (nodes.names || []).join(" ") };
}

/** @param {string} name @returns {HTMLInputElement} */
function input(name) {
  return /** @type {HTMLInputElement} */ (parts.form.querySelector(`[name="${name}"]`));
}

function guessKey() {
  return state.taintKeys.find((/** @type {string} */ key) => !key.startsWith("node.kubernetes.io/")) || state.taintKeys[0];
}

function fields() {
  const kind = input("change").value, device = kind === "apply";
  /** @type {Record<string, boolean>} */
  const wanted = {
    change: true, nodes: !device && kind !== "gates", selector: device, key: kind === "taint" || kind === "untaint" || device,
    value: kind === "taint" || device, effect: kind === "taint" || kind === "untaint", deviceEffect: device, gates: kind === "gates", force: kind === "drain",
  };
  for (const each of parts.form.querySelectorAll("[data-for]")) {
    /** @type {HTMLElement} */ (each).hidden = !wanted[/** @type {HTMLElement} */ (each).dataset.for || ""];
  }
}

/** @returns {Promise<any>} */
async function question() {
  const kind = input("change").value, value = (/** @type {string} */ name) => input(name).value.trim();
  if (kind === "gates") return { change: kind, gates: value("gates") };
  if (kind === "apply") {
    const taint = `${value("key")}${value("value") ? "=" + value("value") : ""}:${value("deviceEffect")}`;
    const made = await send("rule", { selector: value("selector"), taint, allDevices: !value("selector") });
    if (made.cannotSay) throw new Error(made.cannotSay);
    return { change: kind, rule: made.rule };
  }
  const words = value("nodes");
  const nodes = !words || words === "*" ? { all: true } : /[=!]/.test(words) ? { selector: words } : { names: words.split(/[\s,]+/) };
  const body = { change: kind, nodes, ...(kind === "drain" && input("force").checked ? { force: true } : {}) };
  if (kind === "taint") return { ...body, key: value("key"), value: value("value"), effect: value("effect") };
  if (kind === "untaint") return { ...body, key: value("key"), effect: value("effect") };
  return body;
}

async function again() {
  fields();
  const names = ["change", "nodes", "selector", "key", "value", "effect", "deviceEffect", "gates"];
  remember(Object.fromEntries(names.map((name) => [name, input(name).value || null])));
  const mine = ++turn;
  parts.result.setAttribute("aria-busy", "true");
  try {
    let body = await question();
    const slides = body.change === "taint" && body.key;
    stops = slides ? await send("ticks", body) : null;
    if (stops && !body.value && stops.ticks.length) {
      input("value").value = stops.ticks[Math.floor(stops.ticks.length / 2)].value;
      body = await question();
      remember({ value: input("value").value });
    }
    if (mine !== turn) return;
    drawSlider();
    if (!answer || !parts.result.childElementCount) parts.result.replaceChildren(h("p.quiet.pad", null, "A copy of the cluster lives through it …"));
    const found = await send("what-if", body);
    if (mine !== turn) return;
    [answer, asked] = [found, body];
    moment = Math.max(0, Number(route().query.t) || 0);
    drawAnswer();
  } catch (error) {
    if (mine !== turn) return;
    if (!stops) parts.slider.hidden = true;
    parts.result.replaceChildren(h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message));
  } finally {
    parts.result.removeAttribute("aria-busy");
  }
}

// ── the values that matter ──

function drawSlider() {
  parts.slider.hidden = !stops || !stops.ticks.length;
  if (parts.slider.hidden) return;
  const ticks = stops.ticks, value = input("value").value;
  const found = ticks.findIndex((/** @type {any} */ each) => each.value === value);
  const at = found >= 0 ? found : 0;
  const tall = 84, each = Math.min(90, 1000 / ticks.length), wide = each * ticks.length, most = Math.max(1, stops.pods);
  const picture = s("svg.stops", { viewBox: `0 0 ${wide} ${tall + 34}`, role: "img", "aria-label": `Who may stay at each of ${counted(ticks.length, "value")} that matter` });
  const labels = Math.ceil(ticks.length / 16);
  ticks.forEach((/** @type {any} */ tick, /** @type {number} */ index) => {
    let top = tall;
    for (const part of ["stay", "later", "leave"]) {
      const high = tick[part] / most * (tall - 12);
      top -= high;
      if (!high) continue;
      picture.append(s(`rect.bar-${part}`, { x: index * each + each * 0.14, width: each * 0.72, y: top, height: high, rx: 2, opacity: index === at ? 1 : 0.55 }));
      if (high > 14 && each > 16) picture.append(s("text.strong", { x: index * each + each / 2, y: top + high / 2 + 4, "text-anchor": "middle" }, SHAPES[part]));
    }
    if (tick.thresholds.length) picture.append(s("path", { d: `M${index * each + each / 2 - 4} ${tall + 9} l4 -6 l4 6 z`, fill: "currentColor" }));
    if (index % labels === 0 || index === at) {
      picture.append(s("text" + (index === at ? ".strong" : ""), { x: index * each + each / 2, y: tall + 24, "text-anchor": "middle" }, tick.value));
    }
  });
  const tick = ticks[at];
  picture.style.width = `${wide / 10}%`;
  const slide = h("input", {
    type: "range", min: 0, max: ticks.length - 1, step: 1, value: at, "aria-label": `Value of ${input("key").value}`,
    "aria-valuetext": `${tick.value}: ${tick.stay} stay, ${tick.leave} leave at once, ${tick.later} leave later`,
    oninput: (/** @type {Event} */ e) => { input("value").value = ticks[Number(/** @type {HTMLInputElement} */ (e.target).value)].value; drawSlider(); },
    onchange: again,
  });
  slide.style.width = `${wide / 10}%`;
  const had = document.activeElement && parts.slider.contains(document.activeElement);
  parts.slider.replaceChildren(
    h("div.numbers", { id: "live-counts" },
      number(h("bdi", null, `${input("key").value}=${tick.value}`), found >= 0 ? "on " + counted(stops.nodes, "node") : "nearest value that matters"),
      number(tick.stay, `${SHAPES.stay} may stay`), number(tick.later, `${SHAPES.later} leave later`), number(tick.leave, `${SHAPES.leave} leave at once`)),
    picture, slide,
    h("p.quiet", null, tick.thresholds.length ? `A threshold: ${tick.thresholds.slice(0, 4).join(", ")}` : "▲ marks values that tolerations name; between two stops nothing changes."));
  if (had) /** @type {HTMLElement} */ (slide).focus();
}

/** @param {any} value @param {string} words */
function number(value, words) {
  return h("div.number", null, h("b", null, value), h("span", null, words));
}

// ── the answer ──

function drawAnswer() {
  const found = answer.whatIf, leaving = found.leaving;
  const last = Math.max(0, ...leaving.map((/** @type {any} */ one) => Math.max(one.afterSeconds + (answer.graceSeconds[one.pod] || 0), one.landsAfterSeconds || 0)));
  horizon = Math.max(60, Math.ceil(last * 1.08));
  const lost = leaving.filter((/** @type {any} */ one) => one.lost).length;
  const parted = [
    h("div.card", null,
      h("div.numbers", null, number(leaving.length, "pods leave"), number(found.staying, "on the changed nodes stay"),
        number(lost, "have nowhere to go"), number(found.circles.length, "go in circles"), found.leavingAnyway ? number(found.leavingAnyway, "would leave anyway") : null, number(found.helped.length, "waiting pods run then")),
      found.notes.map((/** @type {string} */ each) => h("p.warn", null, each)),
      found.circles.map((/** @type {any} */ each) => h("p.bad", null, `${each.workload} goes in circles: ${counted(each.pods, "pod")}, every ${span(each.everySeconds)}, over ${each.nodes.join(", ")}`)),
      found.differs ? h("p.warn", null, `The copy places ${counted(found.differs.length, "waiting pod")} before any change: it may not be like the cluster.`) : null,
      found.otherwise ? h("p.cannot", null, `A gate that decides is not known; otherwise ${counted(found.otherwise.leaving.length, "pod")} leave.`) : null,
      leaving.length ? player() : h("p", null, "Nobody has to leave.")),
    leaving.length ? h("div.card", { id: "lanes" }) : null,
    budgets(found),
    h("div.card", null, h("h2", null, "Do it"), copyable([answer.commands[0]], "This really does it"), copyable([answer.commands[1]], "This asks again"),
      applyButton(), h("p.quiet", null, "Not considered: ", found.notConsidered.join("; "))),
  ];
  parts.result.replaceChildren(h("div.form", null, parted));
  if (leaving.length) drawLanes();
  announce(`${counted(leaving.length, "pod")} leave, ${lost} have nowhere to go`);
}

function player() {
  const slide = h("input", { type: "range", id: "scrub", min: 0, max: horizon, step: Math.max(0.1, horizon / 600), value: moment, "aria-label": "Time after the change",
    oninput: (/** @type {Event} */ e) => { stopPlaying(); setMoment(Number(/** @type {HTMLInputElement} */ (e.target).value)); } });
  return h("div.row", null, h("button", { type: "button", id: "play", onclick: play }, "▶ Play"), h("div.grow", null, slide), h("output", { id: "clock", for: "scrub" }, clock()));
}

function clock() {
  return moment < 0.05 ? "now" : `+ ${span(Math.max(1, moment))}`;
}

function play() {
  if (playing) return stopPlaying();
  const began = performance.now(), from = moment >= horizon ? 0 : moment, speed = horizon / 8000;
  byId("play").textContent = "❚❚ Pause";
  const step = (/** @type {number} */ now) => {
    setMoment(Math.min(horizon, from + (now - began) * speed));
    if (moment >= horizon || !document.getElementById("scrub")) return stopPlaying();
    playing = requestAnimationFrame(step);
  };
  playing = requestAnimationFrame(step);
}

function stopPlaying() {
  if (playing) cancelAnimationFrame(playing);
  playing = 0;
  const button = document.getElementById("play");
  if (button) button.textContent = "▶ Play";
  remember({ t: moment ? String(Math.round(moment)) : null });
}

/** @param {number} to */
function setMoment(to) {
  moment = to;
  const slide = /** @type {HTMLInputElement | null} */ (document.getElementById("scrub"));
  if (slide) { slide.value = String(to); byId("clock").textContent = clock(); }
  drawLanes();
}

function drawLanes() {
  const place = document.getElementById("lanes");
  if (!place) return;
  /** @type {Map<string, any[]>} */
  const lanes = new Map();
  for (const one of answer.whatIf.leaving) lanes.set(one.workload, [...(lanes.get(one.workload) || []), one]);
  const shown = [...lanes].slice(0, 60);
  refill(place, h("table.lanes", null,
    h("caption.unseen", null, "When the pods of each workload leave, and where they go"),
    h("colgroup", null, h("col.c-owner"), h("col"), h("col.c-end")),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Owner", h("span.sub", null, "▮ placed elsewhere")), h("th", { scope: "col" }, axis()), h("th.end", { scope: "col" }, "Then"))),
    h("tbody", null, shown.map(([name, pods]) => lane(name, pods, { moment, horizon, grace: answer.graceSeconds })))),
  lanes.size > shown.length ? h("p.quiet", null, `and ${counted(lanes.size - shown.length, "more workload")}; weir what-if --all lists them`) : null);
}

function axis() {
  const marks = [0, 0.25, 0.5, 0.75, 1];
  return h("div.axis-words", null, marks.map((each) => h("span", null, each ? span(each * horizon) : "now")));
}

/** @param {any} found */
function budgets(found) {
  if (!found.budgets.length) return null;
  return h("div.card", null, h("h2", null, "Disruption budgets"), h("ul", null, found.budgets.map((/** @type {any} */ each) => h("li", null,
    `${each.budget}: wants ${each.desiredHealthy}, at least ${each.lowestHealthy} were healthy`,
    each.brokenSeconds !== null ? h("span.warn", null, ` · broken ${each.brokenAtTheEnd ? "until the end" : "for " + span(each.brokenSeconds)}`) : null,
    each.blocks.length ? h("span.bad", null, ` · blocks ${each.blocks.join(", ")}`) : null))));
}

// ── making it ──

function applyButton() {
  if (isFrozen || !state.live || asked.change === "gates") return null;
  if (state.readOnly) return h("p.quiet", null, "Started read only: nothing is written from here.");
  return guarded(h("button.danger", { type: "button", id: "apply", onclick: confirmIt }, "Make this change …"), { question: asked });
}

function confirmIt() {
  const command = answer.commands[0], body = asked;
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "sure" },
    h("h2", { id: "sure" }, "Make this change?"), h("p", null, h("bdi", null, state.cluster)), h("pre", { tabindex: 0 }, command),
    h("p", null, `${counted(answer.whatIf.leaving.length, "pod")} would leave.`),
    h("div.row", null,
      h("button.danger", { type: "button", id: "sure-yes", onclick: async () => { dialog.close(); await apply(body, command); } }, "Yes, make it"),
      h("button", { type: "button", onclick: () => dialog.close() }, "No"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {any} body @param {string} command */
async function apply(body, command) {
  try {
    const found = await send("apply", { question: body, confirm: command });
    announce(found.done.join("; "));
    parts.reality.hidden = false;
    parts.reality.dataset.done = found.done.join("\n");
    await reality();
  } catch (error) {
    parts.reality.hidden = false;
    parts.reality.replaceChildren(h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message));
  }
}

async function reality() {
  const found = await ask("reality");
  refill(parts.reality,
    h("div.row", null, h("h2.grow", null, "Plan beside reality"), h("button.small", { type: "button", onclick: () => { parts.reality.hidden = true; again(); } }, "Done")),
    h("p.quiet", null, parts.reality.dataset.done || ""),
    found.drain.length ? h("p.quiet", null, found.drain.slice(-3).join(" · ")) : null,
    found.checks.length ? h("table.checks", null,
      h("thead", null, h("tr", null, ["", "About", "Foreseen", "Found"].map((each) => h("th", { scope: "col" }, each || h("span.unseen", null, "As foreseen"))))),
      h("tbody", null, found.checks.map((/** @type {any} */ each) => h("tr", null,
        h("td." + (each.held ? "good" : "warn"), null, each.held ? "✓" : "…"), h("td", null, h("bdi", null, each.about)), h("td", null, each.foreseen), h("td", null, each.found)))))
      : h("p", null, "Nobody was foreseen to leave."));
}
