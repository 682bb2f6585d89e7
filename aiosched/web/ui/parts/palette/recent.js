// The places that were visited last in this browser by this user: the search shows them first.
import { me } from "../../lib/api.js";

const MOST = 12;
const key = () => `aiosched.recent.${me.value?.name ?? ""}`;

/**
 * Paths, the newest first.
 * @returns {string[]}
 */
export function recentPaths() {
  try {
    const found = JSON.parse(localStorage.getItem(key()) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // somebody has edited it
  }
}

/**
 * Remember a visit of a DAG, a run, a task or an asset; other pages are in the menu.
 * @param {string} path
 */
export function remember(path) {
  if (!/^\/(dags|assets)\/./.test(path)) return;
  const paths = [path, ...recentPaths().filter((one) => one !== path)].slice(0, MOST);
  localStorage.setItem(key(), JSON.stringify(paths));
}
