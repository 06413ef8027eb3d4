// Every state of the page has an address: #/screen?what=is&shown=there

/** @typedef {{screen: string, rest: string[], query: Record<string, string>}} Route */

/** @returns {Route} */
export function route() {
  const [path, words = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [screen = "fit", ...rest] = path.split("/").map(decodeURIComponent);
  return { screen: screen || "fit", rest, query: Object.fromEntries(new URLSearchParams(words)) };
}

/** @param {string} screen @param {Record<string, string | undefined | null>} [query] */
export function address(screen, query = {}) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) words.set(key, value);
  const text = words.toString();
  return `#/${screen}${text ? "?" + text : ""}`;
}

/** Change parts of the address of this screen without a step in the history. @param {Record<string, string | null>} changes */
export function remember(changes) {
  const now = route();
  const path = [now.screen, ...now.rest].map(encodeURIComponent).join("/");
  history.replaceState(null, "", address(path, { ...now.query, ...changes }));
}
