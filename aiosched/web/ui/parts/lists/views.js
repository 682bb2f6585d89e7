// Named views of lists: a name for the filters in the address. They are kept in this browser.
import { signal } from "../../lib/html.js";

/** @typedef {{ name: string, query: string }} NamedView */

/** @param {string} page */
const keyOf = (page) => `aiosched.views.${page}`;

/** Counts changes, so that components that read views render again. */
const changes = signal(0);

/**
 * The views of a page, by name.
 * @param {string} page
 * @returns {NamedView[]}
 */
export function viewsOf(page) {
  void changes.value;
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(page)) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => one && typeof one.name === "string") : [];
  } catch {
    return []; // not allowed, or not ours
  }
}

/**
 * @param {string} page
 * @param {NamedView[]} views
 */
function store(page, views) {
  try {
    localStorage.setItem(keyOf(page), JSON.stringify(views));
  } catch {
    // not allowed: the view is gone with the page
  }
  changes.value++;
}

/**
 * Keep the filters `query` under a name; a view of that name is replaced.
 * @param {string} page
 * @param {string} name
 * @param {string} query
 */
export const saveView = (page, name, query) =>
  store(
    page,
    [...viewsOf(page).filter((one) => one.name !== name), { name, query }].sort((a, b) =>
      a.name.localeCompare(b.name),
    ),
  );

/**
 * @param {string} page
 * @param {string} name
 */
export const removeView = (page, name) =>
  store(
    page,
    viewsOf(page).filter((one) => one.name !== name),
  );
