// Plan: in which waves to make a change so that every goal is kept; waves can be split and merged, and are forecast again.
import { announce, byId, copyable, counted, emptyState, h, number, s, span } from "./dom.js";
import { KINDS, changeForm } from "./change.js";
import { Job } from "./job.js";
import { SNAPSHOT } from "./verdicts.js";
import { remember, route } from "./route.js";

const PLANNED = ["taint", "untaint", "drain", "apply"];
/** @type {[string, string, string][]} */
const GOALS = [["maxPending", "No pod waits longer for a node", "0s"], ["maxUnavailable", "Unavailable at once, of a workload's pods", "25%"],
  ["spare", "Keep jobs with devices that have run for", "6h"], ["within", "Done within", "2h"]];
const MOST = 60, LISTED = 20;

/** @type {any} */
let state = null;
/** The plan that was found. @type {any} */
let found = null;
/** The one that is shown: the same, or with waves that were split or merged. @type {any} */
let shown = null;
/** @type {any} */
let asked = null;
/** @type {Job | null} */
let running = null;
/** What the form said last. @type {Record<string, string | null>} */
let said = {};
/** @type {import("./change.js").ChangeForm} */
let form;
/** @type {HTMLElement} */
let result;

export const planScreen = { title: "Plan", draw, refresh };

/** @param {HTMLElement} main @param {any} now */
async function draw(main, now) {
  state = now;
  if (!state.nodes.length) {
    main.replaceChildren(h("section.screen", { "aria-label": "Plan a change" }, emptyState("This cluster has no nodes",
      "A plan makes a change to nodes in waves. To have some:", [state.live ? ["add nodes to this cluster", "weir node add --count 3"] : ["add nodes to the dump", "kubectl get nodes,pods,pdb -A -o yaml"], SNAPSHOT])));
    return;
  }
  /** @type {Record<string, any>} */
  const query = { ...(route().query.change ? {} : said), ...route().query };
  form = changeForm(state, query, { kinds: KINDS.filter(([kind]) => PLANNED.includes(kind)), button: "Find a plan", force: PLANNED, edited, submit: () => ask(null), more: goals(query) });
  result = h("div", { "aria-live": "polite" });
  main.replaceChildren(h("section.screen", { "aria-label": "Plan a change" }, h("div.split", null, form.form, result)));
  if (running) showProgress();
  else if (route().query.change && !query.draft) await ask(null);
  else if (shown && !said.draft) drawPlan();
  else result.replaceChildren(hint());
}

/** @param {any} now */
async function refresh(now) {
  const had = state && state.nodes.length;
  state = now;
  if (route().screen !== "plan") return;
  if (!had && state.nodes.length) return draw(byId("main"), now);
  if (shown) outdated("The cluster has changed since.");
}

function hint() {
  return h("p.quiet.pad", null, "Choose a change and press Find a plan: waves that keep every goal are searched by forecasts on a copy of the cluster, nothing is written.");
}

/** @param {Record<string, any>} query */
function goals(query) {
  return h("details.group", { open: GOALS.some(([name]) => query[name]) || query.ignoreBudgets }, h("summary", null, "Goals"),
    h("div.form", null, GOALS.map(([name, words, usual]) => h("label", null, words, h("input", { name, value: query[name] || "", placeholder: usual, autocomplete: "off", onchange: edited }))),
      h("label.check", null, h("input", { type: "checkbox", name: "ignoreBudgets", checked: Boolean(query.ignoreBudgets), onchange: edited }), "Taints may violate disruption budgets")));
}

function edited() {
  form.fields();
  keepAddress({ draft: "1" });
  if (shown) outdated("The change is another one now.");
}

/** @param {Record<string, string | null>} more */
function keepAddress(more) {
  said = { ...form.words(), ...Object.fromEntries(GOALS.map(([name]) => [name, form.input(name).value.trim() || null])), ignoreBudgets: form.input("ignoreBudgets").checked ? "1" : null, ...more };
  remember(said);
}

/** Say that the plan below is not about what there is now. @param {string} why */
function outdated(why) {
  if (!result.isConnected || running || result.querySelector("#outdated")) return;
  result.prepend(h("p.warn.card", { id: "outdated", role: "status" }, `${why} What is shown is of before. `, h("button.small", { type: "button", onclick: () => ask(null) }, "Find a plan")));
}

/** Ask for a plan, or for the forecast of *waves*. @param {string[][] | null} waves */
async function ask(waves) {
  if (running) running.cancel();
  const job = running = new Job();
  showProgress();
  if (innerWidth <= 900) result.scrollIntoView();
  try {
    if (!waves) {
      keepAddress({ draft: null });
      asked = { ...await form.question(), goals: { ...Object.fromEntries(GOALS.map(([name]) => [name, form.input(name).value])), ignoreBudgets: form.input("ignoreBudgets").checked } };
    }
    const answer = await job.send("plan", waves ? { ...asked, waves } : asked);
    if (running !== job) return;
    shown = answer;
    if (!waves) found = answer;
    ended();
    drawPlan();
  } catch (error) {
    if (running !== job) return;
    ended();
    result.replaceChildren(h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message), waves ? backButton("Back to the plan") : "");
  }
}

function showProgress() {
  if (running) running.show(result, "Forecasting on a copy of the cluster …", (now) => `Forecasting on a copy of the cluster, ${now.stage} ${now.done} of ${now.total}`, () => {
    running = null;
    announce("Cancelled");
    if (shown) drawPlan();
    else result.replaceChildren(h("p.quiet.pad", { role: "status" }, "Cancelled: no plan was found to the end."));
  });
}

function ended() {
  if (running) running.end();
  running = null;
}

// ── the plan ──

function drawPlan() {
  const card = shown.none ? none(shown.none) : waves(shown.plan);
  result.replaceChildren(h("div.form", null, card));
  announce(byId("headline").textContent || "");
}

/** @param {any} answer */
function none(answer) {
  return [h("div.card", null,
    h("p.verdict.bad", { id: "headline" }, `${answer.proven ? "There is no plan" : "No plan was found"} that keeps all goals.`),
    h("ul", null, [...new Set(answer.breaks.slice(0, 5).map((/** @type {any} */ each) => each.text))].map((text) => h("li", null, /** @type {string} */ (text)))),
    answer.proven ? h("p", null, `Proven: ${answer.proven}.`) : null),
  h("div.card", null, h("h2", null, "What would make one possible"),
    answer.relaxations.length ? h("ul", { id: "relaxations" }, answer.relaxations.map((/** @type {string} */ each) => h("li", null, each))) : h("p", null, "No single relaxation that was tried makes one possible."),
    h("p.quiet", null, answer.relaxations.length ? "Each of these was forecast. " : "", `Tried in ${counted(answer.forecasts, "forecast")}: ${answer.tried.join("; ")}.`)),
  h("div.card", null, copyable([shown.command], "This asks again"))];
}

/** @param {any} plan */
function waves(plan) {
  const totals = plan.totals, wrong = shown.broken.filter((/** @type {string[]} */ each) => each.length).length;
  const many = totals.nodes ? ` over ${counted(totals.nodes, "node")}` : "";
  return [h("div.card", null,
    h("p.verdict", { id: "headline" }, `${counted(totals.waves, "wave")}${many}: ${counted(totals.movedPods, "pod")} moved, ${span(totals.seconds || 0)} foreseen`),
    h("p" + (wrong ? ".bad" : ".good"), { id: "goals" }, wrong ? `✗ ${counted(wrong, "wave")} would break a goal.` : "✓ Every goal is kept, by forecast."),
    h("div.numbers", null, number(totals.waves, "waves"), number(totals.movedPods, "pods moved"), number(totals.expensiveMoves || 0, "of them expensive"),
      number(span(totals.seconds || 0), "foreseen"), shown !== found ? h("div", null, backButton("Back to the plan that was found")) : null)),
  h("div.card", null, gantt(plan)),
  h("div.card", null, h("h2", null, "Review it, carry it out"), h("div.row", null, Object.entries(shown.files).map(([name, text]) =>
    h("button", { type: "button", onclick: () => download(name, /** @type {string} */ (text)) }, `Download ${name}`))),
    copyable(["weir plan run plan.yaml"], "This carries it out, wave by wave"), shown === found ? copyable([`${shown.command} -o yaml > plan.yaml`], "This finds it again") : null,
    plan.searched ? [h("h3", null, "How it was found"), h("p", null, plan.searched.bound ? `${plan.searched.bound}.` : ""), h("p.quiet", null, `Tried in ${counted(plan.searched.forecasts, "forecast")}: ${plan.searched.tried.join("; ")}.`)] : null,
    h("h3", null, "Not known"), h("ul", { id: "not-known" }, plan.notKnown.map((/** @type {string} */ each) => h("li", null, each))))];
}

/** @param {string} words */
function backButton(words) {
  return h("button", { type: "button", id: "back", onclick: () => { shown = found; drawPlan(); } }, words);
}

/** Waves over time, a row each: the bar is as long as the wave, and the higher the more pods it moves. @param {any} plan */
function gantt(plan) {
  const seconds = Math.max(plan.totals.seconds || 0, 1), most = Math.max(1, ...plan.waves.map(moved));
  return [h("table.lanes", { id: "waves" },
    h("caption.unseen", null, "Waves over time, with the pods they move, the room left and the budgets"),
    h("colgroup", null, h("col.c-owner"), h("col"), h("col.c-end")),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Wave"), h("th", { scope: "col" }, h("div.axis-words", null, [0, 0.5, 1].map((part) => h("span", null, part ? span(part * seconds) : "now")))), h("th.end", { scope: "col" }, "Afterwards"))),
    h("tbody", null, plan.waves.slice(0, MOST).map((/** @type {any} */ wave, /** @type {number} */ at) => row(wave, at, seconds, most)))),
  plan.waves.length > MOST ? h("p.quiet", null, `… and ${counted(plan.waves.length - MOST, "more wave")}; the files hold all`) : null];
}

/** @param {any} wave */
function moved(wave) {
  return (wave.evictions || []).length;
}

/** @param {any} wave @param {number} at @param {number} seconds @param {number} most */
function row(wave, at, seconds, most) {
  const starts = wave.startsAfterSeconds || 0, takes = (wave.endsAfterSeconds || 0) - starts, high = 8 + 16 * moved(wave) / most;
  const wide = Math.max(4, takes / seconds * 600), words = `wave ${wave.number}: ${counted(moved(wave), "pod")} moved, from ${starts ? span(starts) : "now"}, for ${span(takes)}`;
  const room = [wave.room?.cpu !== undefined ? `${wave.room.cpu} CPUs` : "", wave.room?.memory !== undefined ? `${Math.round(wave.room.memory / 2 ** 30)} GiB` : ""].filter(Boolean).join(", ");
  return h("tr", null,
    h("th", { scope: "row" }, h("span.lane-name", null, `Wave ${wave.number}`), h("span.sub", null, h("bdi", null, few(shown.items[at], 2))), h("span.sub", null, `${counted(moved(wave), "pod")} moved`)),
    h("td", null, s("svg", { viewBox: "0 0 600 26", preserveAspectRatio: "none", role: "img", "aria-label": words }, s("title", null, words),
      s(shown.broken[at].length ? "rect.bar-leave" : moved(wave) ? "rect.bar-later" : "rect.bar-stay", { x: Math.min(starts / seconds * 600, 600 - wide), y: 13 - high / 2, width: wide, height: high, rx: 2 })),
      shown.broken[at].map((/** @type {string} */ each) => h("p.bad", null, `✗ ${each}`)),
      (wave.notes || []).filter((/** @type {string} */ each) => !each.startsWith("breaks a goal")).map((/** @type {string} */ each) => h("p.warn", null, each)),
      details(wave), edits(at)),
    h("td.end", null, room ? h("div", null, `room left: ${room}`) : null,
      (wave.waitFor?.budgets || []).slice(0, 3).map((/** @type {any} */ each) => h("div", null, `${each.budget} allows ${each.allowed}`)),
      lowest(wave).slice(0, 3).map((/** @type {any} */ each) => h("div.quiet", null, `${each.workload}: at least ${each.lowest} of ${each.running} run`))));
}

/** @param {any} wave */
function lowest(wave) {
  const touched = new Set((wave.evictions || []).map((/** @type {any} */ one) => one.workload));
  return (wave.waitFor?.workloads || []).filter((/** @type {any} */ each) => touched.has(each.workload) && each.lowest < each.running)
    .sort((/** @type {any} */ a, /** @type {any} */ b) => a.lowest / a.running - b.lowest / b.running);
}

/** @param {string[]} names @param {number} most */
function few(names, most) {
  return names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");
}

/** @param {any} wave */
function details(wave) {
  const moves = (wave.moves || []).map((/** @type {any} */ each) => h("li", null, `${each.pods} of ${each.workload}: ${each.from} → ${each.to}`));
  const lost = (wave.evictions || []).filter((/** @type {any} */ one) => !one.goesTo).map((/** @type {any} */ one) => h("li", null, `${one.pod} on ${one.node}: nothing takes its place`));
  const lists = [...moves, ...lost];
  return h("details", null, h("summary", null, "Changes, moves and waits"), copyable(wave.changes, "Changes"),
    lists.length ? h("ul.pods", null, lists.slice(0, LISTED), lists.length > LISTED ? h("li", null, `… and ${lists.length - LISTED} more`) : null) : null,
    h("p.quiet", null, "Then wait until the evicted pods are gone, what replaces them runs, and budgets are as before."),
    (wave.undo || []).length ? copyable(wave.undo, "Undo") : h("p.warn", null, "It cannot be undone."));
}

// ── other waves ──

/** @param {number} at */
function edits(at) {
  const items = shown.items, name = `wave ${at + 1}`;
  return h("div.row", null,
    items[at].length > 1 ? h("button.small", { type: "button", "data-split": at, "aria-label": `Split ${name}`, onclick: () => split(at) }, "Split …") : null,
    at + 1 < items.length ? h("button.small", { type: "button", "data-merge": at, "aria-label": `Merge ${name} with wave ${at + 2}`,
      onclick: () => ask([...items.slice(0, at), [...items[at], ...items[at + 1]], ...items.slice(at + 2)]) }, "Merge with the next") : null);
}

/** Ask which items of a wave go into one of their own behind it. @param {number} at */
function split(at) {
  const items = shown.items[at], kind = shown.ordered ? "radio" : "checkbox";
  const boxes = items.map((/** @type {string} */ name, /** @type {number} */ place) => h("input", { type: kind, name: "behind", value: name, checked: place >= items.length / 2 && (kind === "checkbox" || place < items.length / 2 + 1), disabled: kind === "radio" && !place, onchange: () => check() }));
  const done = /** @type {HTMLButtonElement} */ (h("button.primary", { type: "submit" }, "Split and forecast"));
  const chosen = () => {
    const first = boxes.findIndex((/** @type {HTMLInputElement} */ each) => each.checked);
    return items.filter((/** @type {string} */ _, /** @type {number} */ place) => kind === "radio" ? place >= first : boxes[place].checked);
  };
  const check = () => { done.disabled = !chosen().length || chosen().length === items.length; };
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "split-title" },
    h("form.form", { method: "dialog", onsubmit: () => {
      const behind = chosen();
      void ask([...shown.items.slice(0, at), items.filter((/** @type {string} */ each) => !behind.includes(each)), behind, ...shown.items.slice(at + 1)]);
    } },
    h("h2", { id: "split-title" }, `Split wave ${at + 1}`), h("p", null, kind === "radio" ? "The wave behind it begins with:" : "Into a wave behind it go:"),
    h("ul.choose", { tabindex: 0, "aria-label": `In wave ${at + 1}` }, items.map((/** @type {string} */ name, /** @type {number} */ place) => h("li", null, h("label.check", null, boxes[place], h("bdi", null, name))))),
    h("div.row", null, done, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  check();
  dialog.showModal();
}

/** @param {string} name @param {string} text */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(url);
}
