// One workload or pod in full: the answer of `weir explain`, as a tree that can be opened.
import { copyable, counted, h } from "./dom.js";
import { address } from "./route.js";

/**
 * @param {any} found a weir.ui.explain/v1 document
 * @param {{onTry: ((choice: number) => void) | null}} given
 */
export function workloadDetails(found, given) {
  const [answer] = found.explain.pods;
  return h("div.details", null,
    head(answer),
    found.explain.otherwise ? h("p.cannot", null, "It is not known whether a gate is on. Otherwise: " + found.explain.otherwise.pods[0].verdict) : null,
    found.changes.length ? h("h3", null, found.node ? `Smallest change for ${found.node}` : "Smallest change") : null,
    found.changes.map((/** @type {any} */ change, /** @type {number} */ at) => changeCard(change, at, given.onTry)),
    nodeGroups(answer),
    found.pods.length ? h("h3", null, "Its pods") : null,
    found.pods.length ? h("ul.pods", null, found.pods.map((/** @type {any} */ pod) => h("li", null,
      h("a", { href: address(`pod/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`) }, h("bdi", null, pod.name)),
      h("span.quiet", null, ` ${pod.phase || "Pending"}${pod.node ? ` on ${pod.node}` : ", no node"}`)))) : null,
    notes(answer, found.explain));
}

/** @param {any} answer one pod of weir.explain/v1 */
export function tree(answer) {
  return h("div", null, head(answer), nodeGroups(answer));
}

/** @param {any} answer */
function head(answer) {
  const replicas = answer.replicas;
  return h("div", null,
    h("p.verdict." + (answer.fits ? "good" : "bad"), null, h("span", { "aria-hidden": "true" }, answer.fits ? "✓ " : "✗ "), answer.verdict),
    replicas ? h("p", null, `${replicas.running + replicas.placed} of ${replicas.wanted} pods would run${replicas.whyNot ? `; the next one fails: ${replicas.whyNot}` : ""}`) : null,
    answer.observed ? h("p.observed", null, "The cluster says: ", answer.observed.says.join("; "), answer.observed.differs ? h("br") : null, answer.observed.differs) : null,
    answer.schedulerMessage ? h("p.quiet", null, answer.schedulerMessage) : null,
    answer.blockers.length ? h("ul.reasons", null, answer.blockers.map((/** @type {any} */ each) => h("li.bad", null, each.text))) : null);
}

/** @param {any} answer */
function nodeGroups(answer) {
  return h("div", null,
    answer.groups.length ? h("h3", null, "Nodes, closest first") : null,
    answer.groups.map((/** @type {any} */ group, /** @type {number} */ at) => {
      const said = group.reasons.map((/** @type {any} */ each) => each.text).join("; ") === group.text;  // no list says it again
      return h("details.group", { open: at < 3 },
        h("summary", null, h("span.mark." + (group.fits ? "good" : "bad"), { "aria-hidden": "true" }, group.fits ? "✓" : "✗"),
          h("strong", null, `${counted(group.nodes.length, "node")}:`), h("span", null, ` ${group.text}`), said ? h("span.quiet", null, ` ${[...new Set(group.reasons.map((/** @type {any} */ each) => each.plugin))].join(", ")}`) : null),
        group.reasons.length && !said ? h("ul.reasons", null, group.reasons.map((/** @type {any} */ each) => h("li", null, each.text, h("span.quiet", null, ` ${each.plugin}`)))) : null,
        group.stay && group.stay.text && !group.text.includes(group.stay.text) ? h("p", null, group.stay.text) : null,
        h("p.quiet.names", null, group.nodes.slice(0, 24).join(", "), group.nodes.length > 24 ? ` and ${group.nodes.length - 24} more` : ""));
    }));
}

/** @param {any} change @param {number} at @param {((choice: number) => void) | null} onTry */
function changeCard(change, at, onTry) {
  const body = [
    change.diff.length ? copyable(change.diff, at ? "Alternative" : "Diff") : null,
    onTry ? h("button" + (at ? "" : ".primary"), { type: "button", onclick: () => onTry(change.choice) }, "Try it") : null,
  ];
  const said = change.edits.join("; ");
  return at ? h("details.change", null, h("summary", null, "or: ", said), body) : h("div.change", null, h("p", null, said), body);
}

/** @param {any} answer @param {any} document */
function notes(answer, document) {
  return h("div.notes", null,
    answer.unknown ? h("p.cannot", null, "Not known: ", answer.unknown.join("; ")) : null,
    h("p.quiet", null, "Not considered: ", answer.notConsidered.join("; ")),
    h("p.quiet", null, "Gates: ", document.featureGates.replaceAll(",", ", ")));
}

/** @param {any} life */
export function lifeList(life) {
  return life.length ? h("ol.life", null, life.map((/** @type {any} */ each) => h("li", null,
    h("time", { datetime: each.time }, each.time.replace("T", " ").replace("Z", "") || "no time"),
    h("strong", null, each.what), h("span", null, each.text), h("span.quiet", null, each.source))))
    : h("p.quiet", null, "Nothing is written down of its life: a dump holds events only if they were asked for.");
}
