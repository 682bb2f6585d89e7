// Routing: the path selects the page, the query string holds selection, filters and tabs.
import { signal, computed } from "./html.js";

const base = new URL(document.baseURI).pathname; // the prefix the app is mounted under, ends with "/"

const read = () => ({
  path: "/" + location.pathname.slice(base.length),
  query: new URLSearchParams(location.search),
});

/** The current location: `{path, query}`; the path excludes the prefix. */
export const here = signal(read());
/** The query parameters by name. */
export const query = computed(() => Object.fromEntries(here.value.query));

/**
 * All values of a query parameter.
 * @param {string} name
 */
export const valuesOf = (name) => here.value.query.getAll(name);

/**
 * Keep a value with this place of the history: it is there again after Back, Forward and a reload.
 * @param {string} name
 * @param {unknown} value
 */
export const keep = (name, value) => history.replaceState({ ...history.state, [name]: value }, "");

/**
 * A value that is kept with this place of the history.
 * @param {string} name
 */
export const kept = (name) => history.state?.[name];

history.scrollRestoration = "manual"; // the browser would scroll before there is something to scroll to
let stopScrolling = () => {};

/** Scroll to where this place of the history was left, as soon as the page is long enough; the user may go first. */
function scrollBack() {
  stopScrolling();
  const top = kept("scroll") ?? 0;
  const watch = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight - innerHeight < top - 1) return;
    scrollTo(0, top);
    stopScrolling();
  });
  const ended = new AbortController();
  stopScrolling = () => {
    watch.disconnect();
    ended.abort();
    stopScrolling = () => {};
    isBack = true;
  };
  isBack = false;
  for (const event of ["wheel", "touchmove", "keydown", "pointerdown"])
    addEventListener(event, () => stopScrolling(), { signal: ended.signal, passive: true });
  watch.observe(document.body);
}

let isBack = true; // what is scrolled before that is not kept
const keepScroll = () => isBack && keep("scroll", scrollY);
addEventListener("scrollend", keepScroll);
scrollBack();

addEventListener("popstate", () => {
  here.value = read();
  scrollBack();
});

/**
 * The full address of a path inside the UI, such as `/dags/sales?tab=grid`.
 * @param {string} path
 */
export const href = (path) => base + path.replace(/^\//, "");

/**
 * A path from its parts, each encoded: `path("dags", "a b")` is `/dags/a%20b`.
 * @param {...(string | number)} parts
 */
export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/**
 * Go to a path. A run or a task keeps the `list` from which one comes.
 * @param {string} to
 * @param {{ replace?: boolean }} [options]
 */
export function go(to, { replace = false } = {}) {
  if (replace) history.replaceState(history.state, "", href(to));
  else {
    stopScrolling();
    keepScroll();
    history.pushState(/\/runs\/./.test(to) ? { list: kept("list") } : null, "", href(to));
  }
  here.value = read();
  if (!replace) scrollTo(0, 0);
}

/** @typedef {string | number | boolean | null | undefined | string[]} QueryValue */

/**
 * Change query parameters; null, "" and false remove one, a list is repeated. Replaces the history entry unless `push`
 * is set.
 * @param {Record<string, QueryValue>} changes
 * @param {{ push?: boolean }} [options]
 */
export function setQuery(changes, { push = false } = {}) {
  const next = new URLSearchParams(here.value.query);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    if (value === null || value === undefined || value === "" || value === false) continue;
    for (const one of [value].flat()) next.append(name, String(one));
  }
  const text = next.toString();
  go(here.value.path + (text ? "?" + text : ""), { replace: !push });
}

// Links inside the UI do not reload the page.
document.addEventListener("click", (event) => {
  if (
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const target = /** @type {Partial<Element>} */ (event.target);
  const link = /** @type {HTMLAnchorElement | null | undefined} */ (target.closest?.("a[href]"));
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(base) || link.dataset.external !== undefined) return;
  event.preventDefault();
  go("/" + link.pathname.slice(base.length) + link.search);
});

/**
 * The page for a path: `routes` are `[pattern, page]` with `:name` parts; `{page, params}`.
 * @template Page
 * @param {[string, Page][]} routes
 * @param {string} path
 */
export function match(routes, path) {
  const parts = path.replace(/\/+$/, "").split("/").slice(1);
  for (const [pattern, page] of routes) {
    const wanted = pattern === "/" ? [] : pattern.split("/").slice(1);
    if (wanted.length !== parts.length) continue;
    if (!wanted.every((word, i) => word.startsWith(":") || word === parts[i])) continue;
    try {
      return {
        page,
        params: Object.fromEntries(
          wanted.flatMap((word, i) =>
            word.startsWith(":") ? [[word.slice(1), decodeURIComponent(parts[i])]] : [],
          ),
        ),
      };
    } catch {
      return null;
    } // malformed % escape: not one of our pages
  }
  return null;
}
