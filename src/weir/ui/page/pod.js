// One pod: its life, each decision with its reason, and where it would fit now.
import { h, refill } from "./dom.js";
import { ask } from "./api.js";
import { route } from "./route.js";
import { lifeList, tree } from "./reasons.js";

/** @type {HTMLElement | null} */
let place = null;

export const podScreen = { title: "Pod", draw, refresh };

/** @param {HTMLElement} main */
async function draw(main) {
  place = h("section.screen.page", { "aria-label": "One pod" });
  main.replaceChildren(place);
  await refresh();
}

async function refresh() {
  const { rest } = route();
  if (!place || !place.isConnected) return;
  const [namespace = "", name = ""] = rest;
  try {
    const found = await ask("pod", { name: `${namespace}/${name}` });
    refill(place,
      h("h1", null, h("bdi", null, `${namespace}/${name}`)),
      found.cannotSay ? h("p.cannot", null, `Cannot say: ${found.cannotSay}`) : null,
      h("p.facts", null, [found.phase || "Pending", found.node ? `on ${found.node}` : "no node", ...(found.owners || [])].join(" · ")),
      (found.says || []).map((/** @type {string} */ each) => h("p.observed", null, each)),
      h("h2", null, "Its life"), lifeList(found.life || []),
      found.tolerations && found.tolerations.length ? h("h2", null, "It tolerates") : null,
      h("ul", null, (found.tolerations || []).map((/** @type {any} */ each) => h("li", null, h("code", null, JSON.stringify(each))))),
      found.explain ? h("h2", null, "Where it would fit now") : null,
      found.explain ? tree(found.explain) : null);
  } catch (error) {
    place.replaceChildren(h("h1", null, h("bdi", null, `${namespace}/${name}`)), h("p.cannot", null, /** @type {Error} */ (error).message));
  }
}
