// The page: which screen is shown, and what happens when the cluster changes.
import { announce, byId, h } from "./dom.js";
import { ask, frozenData, isFrozen } from "./api.js";
import { address, route } from "./route.js";
import { closePanel, panelIsOpen } from "./panel.js";
import { fitScreen } from "./fit.js";
import { timelineScreen } from "./timeline.js";
import { fleetScreen } from "./fleet.js";
import { planScreen } from "./plan.js";
import { podScreen } from "./pod.js";

/** @type {Record<string, {title: string, draw: (main: HTMLElement, state: any) => Promise<void>, refresh: (state: any) => Promise<void>}>} */
const SCREENS = { fit: fitScreen, "what-if": timelineScreen, plan: planScreen, devices: fleetScreen, pod: podScreen };
const TABS = isFrozen ? ["fit", "what-if", "devices"] : ["fit", "what-if", "devices", "plan"];
/** @type {any} */
let state = null;
/** How many screens were shown: one that was left while it loaded does not end the loading of the next. */
let shown = 0;

/** Answer *work*, and show what went wrong where the screen would be. @param {() => Promise<void>} work */
async function safely(work) {
  const mine = shown;
  try {
    await work();
  } catch (error) {
    if (mine === shown) byId("main").replaceChildren(h("p.cannot", { role: "alert" }, /** @type {Error} */ (error).message));
  }
}

async function show() {
  const { screen } = route();
  const known = SCREENS[screen] ? screen : "fit";
  head(known);
  closePanel(true);
  document.title = `${SCREENS[known].title} · weir`;
  const main = byId("main"), mine = ++shown;
  main.replaceChildren(h("p.quiet.pad", { role: "status" }, "Loading …"));
  main.setAttribute("aria-busy", "true");
  await safely(() => SCREENS[known].draw(main, state));
  if (mine === shown) main.removeAttribute("aria-busy");
}

/** @param {string} screen */
function head(screen) {
  const marks = [
    isFrozen ? `frozen at ${frozenData().at.replace("T", " ").replace("Z", "")}` : state.live ? "live" : "dump",
    state.live && state.readOnly ? "read only" : "",
  ].filter(Boolean);
  byId("top").replaceChildren(
    h("a.brand", { href: "#/fit" }, h("span.dam", { "aria-hidden": "true" }), "weir"),
    h("nav", { "aria-label": "Screens" }, TABS.map((name, at) =>
      h("a", { href: address(name), "aria-current": name === screen ? "page" : null, title: `Key ${at + 1}` }, SCREENS[name].title))),
    h("span.cluster", { title: `${state.cluster}\n${state.gates}` }, h("bdi", null, state.cluster)),
    h("span.marks", null, marks.map((each) => h(`span.chip${each === "live" ? ".live" : ""}`, null, each))),
    h("button.icon", { type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: turn }, "◑"));
  if (state.missing.some((/** @type {any} */ each) => each.why !== "the server does not have that kind")) {
    const words = state.missing.filter((/** @type {any} */ each) => each.why !== "the server does not have that kind")
      .map((/** @type {any} */ each) => each.plural).join(", ");
    byId("top").append(h("p.missing", { role: "status" }, `Cannot say anything that needs these: ${words}. You may not list them.`));
  }
}

function turn() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("weir-theme", theme); } catch { /* a file may not keep anything */ }
  dispatchEvent(new Event("weir-theme"));
}

/** @param {KeyboardEvent} event */
function keys(event) {
  const typing = event.target instanceof HTMLElement && ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape" && panelIsOpen()) closePanel();
  else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (TABS[Number(event.key) - 1]) location.hash = address(TABS[Number(event.key) - 1]);
  else if (event.key === "/") {
    const search = document.querySelector('input[type="search"]');
    if (search) { event.preventDefault(); /** @type {HTMLElement} */ (search).focus(); }
  }
}

async function follow() {
  let version = state.version;
  for (;;) {
    try {
      const found = await ask("changes", { after: String(version) });
      if (found.version === version) continue;
      version = found.version;
      state = await ask("state");
      document.body.classList.remove("lost");
      await SCREENS[route().screen in SCREENS ? route().screen : "fit"].refresh(state);
    } catch {
      document.body.classList.add("lost");
      announce("The server of this page does not answer");
      await new Promise((resume) => setTimeout(resume, 2000));
    }
  }
}

async function begin() {
  try {
    const theme = localStorage.getItem("weir-theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { /* a file may not keep anything */ }
  await safely(async () => {
    state = await ask("state");
    addEventListener("hashchange", show);
    addEventListener("keydown", keys);
    await show();
    if (!isFrozen && state.live) follow();
  });
}

begin();
