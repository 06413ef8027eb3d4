// Where the answers come from: the server of the page, or, in a file, what was frozen into it.

/** @type {any} */
let frozen = null;
const kept = document.getElementById("frozen");
if (kept) frozen = JSON.parse(kept.textContent || "{}");

export const isFrozen = frozen !== null;

/** What the file holds. */
export function frozenData() {
  return frozen;
}

/** @param {string} name @param {Record<string, string>} [query] @returns {Promise<any>} */
export async function ask(name, query = {}) {
  if (frozen) return fromFile(name, query);
  const words = new URLSearchParams(query).toString();
  return answered(await fetch(`api/v1/${name}${words ? "?" + words : ""}`, { credentials: "same-origin" }));
}

/** @param {string} name @param {any} body @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function send(name, body, signal) {
  if (frozen) return sentToFile(name, body);
  return answered(await fetch(`api/v1/${name}`, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json", "x-weir-ui": "1" },
    body: JSON.stringify(body),
    signal,
  }));
}

/** @param {Response} response */
async function answered(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error || `the server answered ${response.status}`);
  return body;
}

/** @param {string} name @param {Record<string, string>} query */
function fromFile(name, query) {
  if (name === "state") return frozen.state;
  if (name === "matrix") return frozen.matrix;
  if (name === "fleet") return frozen.fleet;
  if (name === "explain" && frozen.explain[query.workload]) return frozen.explain[query.workload];
  throw new Error("this file does not hold that; ask weir ui on the cluster itself");
}

/** @param {string} name @param {any} body */
function sentToFile(name, body) {
  const asked = frozen.whatIf;
  const same = asked && body.change === asked.question.change && body.key === asked.question.key;
  if (same && name === "ticks") return asked.ticks;
  if (same && name === "what-if" && asked.answers[body.value || ""]) return asked.answers[body.value || ""];
  throw new Error("this file holds one change only; ask weir ui on the cluster itself");
}
