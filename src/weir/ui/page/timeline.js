// What if? A change before it is made: a slider over the values that matter, and the time after it, lane by lane.
import { announce, byId, copyable, counted, emptyState, h, number, refill, s, span } from "./dom.js";
import { ask, frozenData, isFrozen, send } from "./api.js";
import { KINDS, changeForm } from "./change.js";
import { Job } from "./job.js";
import { SNAPSHOT } from "./verdicts.js";
import { lane } from "./lanes.js";
import { guarded } from "./rights.js";
import { remember, route } from "./route.js";

/** @type {Record<string, string>} */
const SHAPES = { stay: "✓", later: "◔", leave: "✕" };

/** @type {any} */
let state = null;
/** @type {any} */
let stops = null;
/** @type {any} */
let answer = null;
/** @type {any} */
let asked = null;
let moment = 0, horizon = 60, playing = 0, turn = 0;
/** The question that is being simulated. @type {Job | null} */
let running = null;
/** What the form said last. @type {Record<string, string | null>} */
let said = {};
const BARS = [["bar-later", "still tolerated"], ["bar-leave", "terminating"], ["bar-stay", "its replacement runs"], ["mark-placed", "replacement scheduled"]];
const LOOPS = 5, LANES = 60, GROUPS = 20;
/** @type {Record<string, HTMLElement>} */
let parts = {};
/** @type {import("./change.js").ChangeForm} */
let form;
/** The width that the stops were drawn for. */
let drawnFor = 0;

export const timelineScreen = { title: "What if", draw, refresh };

/** @param {HTMLElement} main @param {any} now */
async function draw(main, now) {
  state = now;
  const frozen = isFrozen ? frozenData().whatIf : null;
  /** @type {Record<string, any>} */
  const query = { ...(frozen ? asQuery(frozen.question) : route().query.change ? {} : said), ...route().query };
  form = changeForm(state, query, { kinds: KINDS, button: "Simulate", force: ["drain"], edited, submit: () => simulate(true) });
  parts = {
    form: form.form,
    slider: h("div.card", { hidden: true }), result: h("div", { "aria-live": "polite" }), reality: h("div.card", { hidden: true }),
  };
  if (!isFrozen && !state.nodes.length) return empty(main);
  main.replaceChildren(h("section.screen", { "aria-label": "What would a change do" },
    h("div.split", null, parts.form, h("div.form", null, parts.slider, parts.reality, parts.result))));
  new ResizeObserver(() => { if (stops && !parts.slider.hidden && sliderRoom() !== drawnFor) drawSlider(); }).observe(parts.slider);
  if (isFrozen && !frozen) {
    parts.result.replaceChildren(h("p.cannot", null, "This file shows no change: weir ui -o report.html --what-if 'drain node-7' writes one that does."));
    return;
  }
  if (running) showProgress();
  else if (frozen || (route().query.change && !query.draft)) void simulate();
  else if (answer && !said.draft) { await countStops(++turn); drawAnswer(); }
  else await edited(new Event("opened"));
}

/** Say what to do where there is nothing to ask about. @param {HTMLElement} main */
function empty(main) {
  parts.form.remove();
  main.replaceChildren(h("section.screen", { "aria-label": "What would a change do" }, emptyState("This cluster has no nodes",
    "A change is simulated on the nodes and pods of a cluster. To have some:",
    [state.live ? ["add nodes to this cluster", "weir node add --count 3"] : ["add nodes to the dump", "kubectl get nodes,pods,pv,pvc -A -o yaml"], SNAPSHOT])));
}

/** @param {any} now */
async function refresh(now) {
  const had = state && state.nodes.length;
  state = now;
  if (!had && state.nodes.length && route().screen === "what-if") return draw(byId("main"), now);
  if (!parts.form || !parts.form.isConnected) return;
  if (!parts.reality.hidden) return reality();
  if (answer) outdated("The cluster has changed since.");
}

/** @param {any} question */
function asQuery(question) {
  const nodes = question.nodes || {};
  return { change: question.change, key: question.key || "", value: question.value || "", effect: question.effect || "NoExecute", gates: question.gates || "",
    nodes: nodes.all ? "*" : nodes.selector || (nodes.names || []).join(" ") };
}

/** Take in what the form says: the values that matter are counted at once, nothing is simulated. @param {Event | null} [event] */
async function edited(event) {
  form.fields();
  if (!event || event.type !== "opened") keepAddress({ draft: "1" });
  const mine = ++turn;
  try {
    await countStops(mine);
    if (mine !== turn) return;
    if (answer && parts.result.childElementCount) outdated("The change is another one now.");
    else if (!running) parts.result.replaceChildren(h("p.quiet.pad", null, "Choose a change and press Simulate: it is simulated on a copy of the cluster, nothing is written."));
  } catch (error) {
    if (mine === turn) failed(/** @type {Error} */ (error));
  }
}

/** @param {Record<string, string | null>} more */
function keepAddress(more) {
  said = { ...form.words(), ...more };
  remember(said);
}

/** Fetch the stops of the slider for what the form says, and return the question. @param {number} mine @returns {Promise<any>} */
async function countStops(mine) {
  let body = await form.question();
  stops = body.change === "taint" && body.key ? await send("ticks", body) : null;
  if (stops && !body.value && stops.ticks.length) {
    form.input("value").value = stops.ticks[Math.floor(stops.ticks.length / 2)].value;
    body = await form.question();
  }
  if (mine === turn) drawSlider();
  return body;
}

/** @param {Error} error */
function failed(error) {
  if (!stops) parts.slider.hidden = true;
  parts.result.replaceChildren(h("p.cannot", { role: "alert" }, error.message));
}

/** Say that the answer below is not about what there is now. @param {string} why */
function outdated(why) {
  if (parts.result.querySelector("#outdated")) return;
  parts.result.prepend(h("p.warn.card", { id: "outdated", role: "status" }, `${why} What is shown is of before. `, h("button.small", { type: "button", onclick: () => simulate(true) }, "Simulate")));
}

/** @param {boolean} [scroll] whether to go to the answer, where the form hides it */
async function simulate(scroll = false) {
  form.fields();
  cancel();
  const mine = ++turn;
  const job = running = new Job();
  showProgress();
  if (scroll && innerWidth <= 900) parts.result.scrollIntoView();
  try {
    const body = await countStops(mine);
    if (running !== job) return;
    if (isShown()) keepAddress({ draft: null });
    const found = await job.send("what-if", body);
    if (running !== job) return;
    [answer, asked] = [found, body];
    moment = isShown() ? Math.max(0, Number(route().query.t) || 0) : 0;
    ended();
    drawAnswer();
    if (scroll && innerWidth <= 900) parts.result.scrollIntoView();
  } catch (error) {
    if (running !== job) return;
    ended();
    failed(/** @type {Error} */ (error));
  }
}

function showProgress() {
  if (running) running.show(parts.result, "Simulating on a copy of the cluster …",
    (now) => `Simulating on a copy of the cluster, with the change and without: ${Math.round(100 * now.done / now.total)} %`,
    () => { running = null; stopped(); });
}

function ended() {
  if (running) running.end();
  running = null;
}

/** Whether the screen is there to be drawn on. */
function isShown() {
  return Boolean(parts.result && parts.result.isConnected);
}

/** End the simulation that runs. */
function cancel() {
  if (running) running.cancel();
  running = null;
}

function stopped() {
  announce("Cancelled");
  if (answer) drawAnswer();
  else parts.result.replaceChildren(h("p.quiet.pad", { role: "status" }, "Cancelled: nothing was simulated to the end."));
}

// ── the values that matter ──

function drawSlider() {
  parts.slider.hidden = !stops || !stops.ticks.length;
  if (parts.slider.hidden || !isShown()) return;
  const ticks = stops.ticks, value = form.input("value").value;
  const found = ticks.findIndex((/** @type {any} */ each) => each.value === value);
  const at = found >= 0 ? found : 0;
  drawnFor = sliderRoom();
  const room = Math.max(200, drawnFor), tall = 84, each = Math.min(90, room / ticks.length), wide = each * ticks.length, most = Math.max(1, stops.pods);
  const picture = s("svg.stops", { viewBox: `0 0 ${wide} ${tall + 34}`, width: wide, height: tall + 34, role: "img", "aria-label": `Who may stay at each of ${counted(ticks.length, "value")} that matter` });
  const labels = Math.ceil((Math.max(...ticks.map((/** @type {any} */ tick) => tick.value.length)) * 7 + 10) / each);
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
    if (index === at || (index % labels === 0 && Math.abs(index - at) >= labels)) {
      const half = tick.value.length * 3.5 + 1, middle = index * each + each / 2;  // a word at an edge stays inside
      picture.append(s("text" + (index === at ? ".strong" : ""), { x: Math.max(half, Math.min(wide - half, middle)), y: tall + 24, "text-anchor": "middle" }, tick.value));
    }
  });
  const tick = ticks[at];
  const slide = h("input", {
    type: "range", min: 0, max: ticks.length - 1, step: 1, value: at, "aria-label": `Value of ${form.input("key").value}`,
    "aria-valuetext": `${tick.value}: ${tick.stay} stay, ${tick.leave} evicted at once, ${tick.later} evicted later`,
    oninput: (/** @type {Event} */ e) => { form.input("value").value = ticks[Number(/** @type {HTMLInputElement} */ (e.target).value)].value; drawSlider(); },
    onchange: () => { if (answer || running) simulate(); else keepAddress({ draft: "1" }); },
  });
  slide.style.width = `${wide}px`;
  slide.hidden = ticks.length < 2;
  const hidden = stops.values - ticks.length;
  const had = document.activeElement && parts.slider.contains(document.activeElement);
  parts.slider.replaceChildren(
    h("div.numbers", { id: "live-counts" },
      number(h("bdi", null, `${form.input("key").value}=${tick.value}`), found >= 0 ? "on " + counted(stops.nodes, "node") : "nearest value that matters"),
      number(tick.stay, `${SHAPES.stay} stay`), number(tick.later, `${SHAPES.later} evicted later`), number(tick.leave, `${SHAPES.leave} evicted at once`)),
    h("p.quiet", null, `Of the ${counted(stops.pods, "pod")} on ${stops.nodes === 1 ? "this node" : "these nodes"} now, by this taint alone; without what happens to them anyway or afterwards.`),
    picture, slide,
    h("p.quiet", null, tick.thresholds.length ? `A threshold: ${tick.thresholds.slice(0, 4).join(", ")}` : ticks.length < 2 ? "No toleration names another value of this key."
      : `▲ marks values that tolerations name${hidden ? "" : "; between two stops nothing changes"}.`,
      hidden ? ` ${counted(ticks.length, "value")} of ${stops.values.toLocaleString("en")} that matter are shown.` : ""));
  if (had) /** @type {HTMLElement} */ (slide).focus();
}

/** Pixels for the stops: drawn one to one, so that their words keep their size on a phone. */
function sliderRoom() {
  const style = getComputedStyle(parts.slider);
  return parts.slider.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

// ── the answer ──

function drawAnswer() {
  const found = answer.whatIf, leaving = found.leaving;
  const last = Math.max(0, ...leaving.map((/** @type {any} */ one) => Math.max(one.afterSeconds + (answer.graceSeconds[one.pod] || 0), one.landsAfterSeconds || 0)));
  horizon = Math.max(60, Math.ceil(last * 1.08));
  const lost = found.numbers.lost + found.numbers.othersLost;
  const parted = [
    h("div.card", null,
      h("p", { id: "headline" }, h("b", null, found.headline)),
      h("div.numbers", null, number(leaving.length, "pods evicted because of it"), number(found.staying, "on the changed nodes stay"),
        number(lost, "not rescheduled or pending"), number(found.circles.length, "eviction loops"), found.leavingAnyway ? number(found.leavingAnyway, "more evicted anyway") : null, number(found.helped.length, "pending pods scheduled")),
      found.notes.map((/** @type {string} */ each) => h("p.warn", null, each)),
      folded(found.circles.map(circle), LOOPS, "workload is evicted and rescheduled in a loop", "workloads are evicted and rescheduled in a loop"),
      found.endedEarly ? h("p.cannot", null, `Too much goes on: nothing is said about what comes after ${span(found.lookedSeconds)}.`) : null,
      found.uncertain ? h("p.cannot", null, found.uncertain) : null,
      found.differs ? h("p.warn", null, `The copy places ${counted(found.differs.length, "pending pod")} before any change: it may not be like the cluster.`) : null,
      found.otherwise ? h("p.cannot", null, `A gate that decides is not known; otherwise ${counted(found.otherwise.leaving.length, "pod")} evicted.`) : null,
      leaving.length ? player() : h("p", null, "No pod is evicted because of it.")),
    leaving.length ? h("div.card", { id: "lanes" }) : null,
    turns("Pending pods that are scheduled", found.helped, (each) => each.waitedFor && `was pending: ${each.waitedFor}`),
    turns("Pods that become unschedulable", found.hindered, (each) => each.whyNot),
    turns("Pods that stay, but would not be scheduled there again", found.lockedOutBecause, (each) => each.why),
    budgets(found),
    found.controlPlane ? h("p.quiet", null, `Run on a copy of the whole control plane, which takes longer: ${found.controlPlane}.`) : null,
    h("div.card", null, h("h2", null, "Do it"), copyable([answer.commands[0]], "This really does it"), copyable([answer.commands[1]], "This asks again"),
      applyButton(), h("p.quiet", null, "Not considered: ", found.notConsidered.join("; "))),
  ];
  parts.result.replaceChildren(h("div.form", null, parted));
  if (leaving.length) drawLanes();
  announce(found.headline);
}

/** @param {any} each */
function circle(each) {
  const more = each.nodes.length - 3, nodes = each.nodes.slice(0, 3).join(", ") + (more > 0 ? ` and ${counted(more, "more node")}` : "");
  const ends = each.otherNodes && each.otherNodes.length ? `; it may end on ${each.otherNodes.slice(0, 3).join(", ")}` : "";
  return h("p.bad", null, `${each.workload} is evicted and rescheduled in a loop: ${counted(each.pods, "pod")}, every ${span(each.everySeconds)}, on ${nodes}${ends}`);
}

/** Show the first of many, and the rest when asked. @param {HTMLElement[]} all @param {number} most @param {string} one @param {string} many */
function folded(all, most, one, many) {
  const rest = all.slice(most);
  return [...all.slice(0, most), rest.length ? h("details", null, h("summary", null, `… and ${rest.length} more ${rest.length === 1 ? one : many}`), rest) : null];
}

/** @param {string} title @param {any[]} pods @param {(each: any) => string} why */
function turns(title, pods, why) {
  if (!pods || !pods.length) return null;
  /** @type {Map<string, number>} */
  const groups = new Map();
  for (const each of pods) {
    const words = `${each.workload || each.pod} — ${why(each) || each.node}`;
    groups.set(words, (groups.get(words) || 0) + 1);
  }
  const rows = [...groups].map(([words, number]) => h("li", null, `${counted(number, "pod")} of ${words}`));
  return h("div.card", null, h("h2", null, `${title}: ${pods.length}`), h("ul", null, folded(rows, GROUPS, "group", "groups")));
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
  const shown = [...lanes].slice(0, LANES), rest = [...lanes].slice(LANES).reduce((sum, [, pods]) => sum + pods.length, 0);
  refill(place, h("table.lanes", null,
    h("caption.unseen", null, "When the pods of each workload are evicted, and where they are rescheduled"),
    h("colgroup", null, h("col.c-owner"), h("col"), h("col.c-end")),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Owner"), h("th", { scope: "col" }, axis()), h("th.end", { scope: "col" }, "Then"))),
    h("tbody", null, shown.map(([name, pods]) => lane(name, pods, { moment, horizon, grace: answer.graceSeconds })))),
  h("ul.legend", { "aria-label": "What the bars say" }, BARS.map(([name, words]) => h("li", null, s("svg.key", { viewBox: "0 0 22 12", "aria-hidden": "true" }, s(`rect.${name}`, { x: 1, y: 1, width: name === "mark-placed" ? 4 : 20, height: 10, rx: 1.5 })), words))),
  lanes.size > shown.length ? h("p.quiet", null, `… and ${counted(lanes.size - shown.length, "more workload")} with ${counted(rest, "pod")}; weir what-if --all lists them`) : null);
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
    h("p", null, `${counted(answer.whatIf.leaving.length, "pod")} would be evicted.`),
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
    h("div.row", null, h("h2.grow", null, "Plan beside reality"), h("button.small", { type: "button", onclick: () => { parts.reality.hidden = true; if (answer) outdated("The change was made."); } }, "Done")),
    h("p.quiet", null, parts.reality.dataset.done || ""),
    found.drain.length ? h("p.quiet", null, found.drain.slice(-3).join(" · ")) : null,
    found.checks.length ? h("table.checks", null,
      h("thead", null, h("tr", null, ["", "About", "Foreseen", "Found"].map((each) => h("th", { scope: "col" }, each || h("span.unseen", null, "As foreseen"))))),
      h("tbody", null, found.checks.map((/** @type {any} */ each) => h("tr", null,
        h("td." + (each.held ? "good" : "warn"), null, each.held ? "✓" : "…"), h("td", null, h("bdi", null, each.about)), h("td", null, each.foreseen), h("td", null, each.found)))))
      : h("p", null, "No eviction was foreseen."));
}
