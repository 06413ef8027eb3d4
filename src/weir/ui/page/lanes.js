// One lane of the timeline: when the pods of a workload are evicted, their grace, and when others take their place.
import { h, s, span } from "./dom.js";

/** @param {string} name @param {any[]} pods @param {{moment: number, horizon: number, grace: Record<string, number>}} time */
export function lane(name, pods, { moment, horizon, grace }) {
  const across = (/** @type {number} */ seconds) => Math.min(600, seconds / horizon * 600);
  const high = 22 / Math.min(pods.length, 8);
  const drawn = pods.slice(0, 8).flatMap((one, at) => {
    const told = across(one.afterSeconds), gone = across(one.afterSeconds + Math.max(1, grace[one.pod] || 0));
    const y = 2 + at * high, tall = Math.max(1.5, high - 1.5);
    return [
      told > 0.5 ? s("rect.bar-later", { x: 0, width: told, y, height: tall, rx: 1.5 }) : null,
      s("rect.bar-leave", { x: told, width: Math.max(2.5, gone - told), y, height: tall, rx: 1.5 }),
      ...landing(one, y, tall, across),
    ];
  });
  const left = pods.filter((one) => one.afterSeconds <= moment).length;
  const landed = pods.filter((one) => one.landsAfterSeconds !== null && one.landsAfterSeconds <= moment).length;
  const [namespace, kind, ...bare] = name.split("/");
  return h("tr", null,
    h("th", { scope: "row", title: name }, h("bdi.lane-name", null, bare.join("/")), h("span.sub", null, h("bdi", null, `${kind} · ${namespace}`)),
      h("span.sub", null, `${left} of ${pods.length} evicted, ${landed} rescheduled`)),
    h("td", null, s("svg", { viewBox: "0 0 600 26", preserveAspectRatio: "none", role: "img", "aria-label": pods.slice(0, 8).map((one) => `${one.pod} evicted ${when(one.afterSeconds)}${landsWords(one)}`).join("; ") },
      drawn, s("line.now", { x1: across(moment), x2: across(moment), y1: 0, y2: 26 }))),
    h("td.end", null, ends(pods)));
}

/** The mark where what was made in a pod's place got its node, and how long it stays there.
 * @param {any} one @param {number} y @param {number} tall @param {(seconds: number) => number} across */
function landing(one, y, tall, across) {
  if (one.landsAfterSeconds === null) return [];
  const at = across(one.landsAfterSeconds), again = one.leavesAgainAfterSeconds;
  const until = again === null ? 600 : across(one.landsAfterSeconds + again);
  return [
    s("rect.bar-stay", { x: at, width: Math.max(0, until - at), y: y + tall * 0.35, height: tall * 0.65, rx: 1.5, opacity: 0.7 }),
    s("rect.landing", { x: Math.min(at, 596), width: 4, y: Math.max(0, y - 1), height: tall + 2, "data-node": one.goesTo, "data-after": one.landsAfterSeconds }, s("title", null, `${one.pod}${landsWords(one)}`)),
  ];
}

/** @param {any} one */
function landsWords(one) {
  return one.landsAfterSeconds === null ? "" : `, its place is taken on ${one.goesTo} ${when(one.landsAfterSeconds)}`;
}

/** @param {number} seconds */
function when(seconds) {
  return seconds < 0.5 ? "at once" : `after ${span(seconds)}`;
}

/** @param {any[]} pods */
function ends(pods) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const one of pods) {
    const words = one.lost ? `✗ ${one.whyNowhere || "not rescheduled"}` : one.goesTo ? `→ ${one.goesTo}, ${when(one.landsAfterSeconds)}` : "needs no replacement";
    found.set(words, (found.get(words) || 0) + 1);
  }
  const first = pods[0];
  const why = first.taint ? `${first.taint.key}=${first.taint.value}: ${first.toleratedSeconds === null ? "not tolerated" : `tolerated for ${first.toleratedSeconds} s`}` : first.cause;
  return [h("div.quiet", null, `${span(first.afterSeconds)}, ${why}`),
    ...[...found].slice(0, 4).map(([words, count]) => h(words.startsWith("✗") ? "div.bad" : "div", { title: words }, `${count > 1 ? count + "× " : ""}${words.split(" preemption:")[0]}`))];
}
