// Hooks for API data: resources and paged lists, reloaded when they change.
import { signal, useEffect, useMemo, useRef } from "./html.js";
import { address, get } from "./api.js";
import { isCutOff, reading } from "./freshness.js";
import { onPatch } from "./live.js";
import { keep, kept } from "./router.js";

const RETRY = 3000; // milliseconds

/**
 * The result of `useResource`; `data` is null until loaded.
 * @template T
 * @typedef {object} Resource
 * @property {Signal<T | null>} data
 * @property {Signal<import("./api.js").Problem | null>} error
 * @property {Signal<boolean>} loading
 * @property {() => void} reload
 */

/**
 * The result of `useList`; `more` is null if there is no further page, `first` is the first one as it was answered.
 * @template T
 * @typedef {object} List
 * @property {Signal<T[]>} items
 * @property {Signal<any>} first
 * @property {Signal<import("./api.js").Problem | null>} error
 * @property {Signal<boolean>} loading
 * @property {Signal<string | null>} more
 * @property {(most?: number) => void} next loads the next page; with `most` so many, until one has items
 * @property {() => void} reload loads the list again
 */

/**
 * The patches that cause a reload: those of `kinds` that `concerns` does not refuse.
 * @typedef {{ kinds?: string[], concerns?: (patch: Patch) => boolean | undefined }} Watch
 */

/**
 * Wrap `work` so that it never overlaps itself: calls during a run cause one more run afterwards, so the last response
 * is the newest.
 * @param {() => Promise<void>} work
 */
function oneAtATime(work) {
  let running = false;
  let again = false;
  return async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      await work();
    } while (again);
    running = false;
  };
}

/**
 * Calls `read` again some time after each problem that may pass. While the page is cut off that waits.
 * @param {() => void} read
 */
function retrying(read) {
  /** @type {number | undefined} */
  let timer;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (isCutOff.value ? wait() : read()), RETRY);
  };
  return {
    after: (/** @type {import("./api.js").Problem} */ problem) => void (problem.isPassing && wait()),
    stop: () => clearTimeout(timer),
  };
}

/**
 * A resource, loaded when mounted and again on patches of `kinds`. With `path` null nothing is loaded yet.
 * `onUpdate(data, patch)` may apply a patch itself and return the new data; if it returns undefined, the resource is
 * reloaded.
 * @template T
 * @param {string | null} path
 * @param {object} [params]
 * @param {Watch & { onUpdate?: (data: T, patch: Patch) => T | undefined }} [options]
 * @returns {Resource<T>}
 */
export function useResource(path, params = {}, { kinds = [], concerns = () => true, onUpdate } = {}) {
  const key = path === null ? null : address(path, params).href;
  const again = useRef(() => {}); // a dialog may have been given `reload` before the first reading
  const state = useMemo(
    /** @returns {Resource<T>} */
    () => ({ data: signal(null), error: signal(null), loading: signal(true), reload: () => again.current() }),
    [key],
  );
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const shown = reading(kinds.length > 0);
    const read = oneAtATime(async () => {
      try {
        state.data.value = await get(path, params, { signal: abort.signal });
        shown.done();
        state.error.value = null;
      } catch (error) {
        if (error.name === "AbortError") return;
        state.error.value = error;
        retry.after(error);
      }
      state.loading.value = false;
    });
    const retry = retrying(read);
    again.current = read;
    read();
    const off = onPatch((patch) => {
      if (patch.kind === "reset") return void read(); // the stream could not be resumed, so anything may have changed
      if (!kinds.includes(patch.kind) || !concerns(patch)) return;
      const next = onUpdate && state.data.value ? onUpdate(state.data.value, patch) : undefined;
      if (next === undefined) read();
      else state.data.value = next;
    });
    return () => {
      abort.abort();
      retry.stop();
      shown.gone();
      off();
    };
  }, [key]);
  return state;
}

/**
 * The first pages of a list, and the cursor of the one after them; null if there is none.
 * @template T
 * @param {string} path
 * @param {object} params
 * @param {number} pages
 * @param {AbortSignal} signal
 * @param {number} patience the number of pages that may be read until one has items
 * @returns {Promise<{ items: T[], cursor: string | null, read: number, first: any }>}
 */
async function readPages(path, params, pages, signal, patience) {
  /** @type {T[]} */
  let items = [];
  let cursor = null;
  let read = 0;
  let first = null;
  while (read < pages || (!items.length && read < patience)) {
    read++;
    const response = await get(path, { ...params, cursor }, { signal });
    items = items.concat(response.items);
    first ??= response;
    cursor = response.next_cursor ?? null;
    if (!cursor) break;
  }
  return { items, cursor, read, first };
}

/**
 * How many pages of a list are shown at this place of the history.
 * @param {string} path
 * @returns {number}
 */
const pagesOf = (path) => (kept(path)?.search === location.search ? kept(path).pages : 1);

/**
 * A list that is not loaded yet.
 * @param {() => void} reload
 */
const emptyList = (reload) => ({
  items: signal([]),
  first: signal(null),
  error: signal(null),
  loading: signal(true),
  more: signal(null),
  next: () => {},
  reload,
});

/**
 * A paged list with `limit` items per page; patches of `kinds` reload it after `delay` ms.
 * @template T
 * @param {string | null} path
 * @param {object} [params]
 * @param {Watch & { limit?: number, delay?: number }} [options]
 * @returns {List<T>}
 */
export function useList(
  path,
  params = {},
  { kinds = [], concerns = () => true, limit = 100, delay = 300 } = {},
) {
  const key = path === null ? null : address(path, params).href;
  const again = useRef(() => {}); // as in `useResource`
  /** @type {List<T>} */
  const state = useMemo(() => emptyList(() => again.current()), [key]);
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const shown = reading(kinds.length > 0);
    let pages = pagesOf(path);
    let patience = 0; // pages that may be read while there are no items
    const read = oneAtATime(async () => {
      state.loading.value = true;
      try {
        /** @type {Awaited<ReturnType<typeof readPages<T>>>} */
        const found = await readPages(path, { ...params, limit }, pages, abort.signal, patience);
        pages = Math.max(pages, found.read);
        state.items.value = found.items;
        state.first.value = found.first;
        shown.done();
        state.more.value = found.cursor;
        state.error.value = null;
      } catch (error) {
        if (error.name === "AbortError") return;
        state.error.value = error;
        retry.after(error);
      }
      state.loading.value = false;
    });
    const retry = retrying(read);
    again.current = read;
    state.next = (most = 0) => {
      pages++;
      keep(path, { search: location.search, pages });
      patience = most;
      return read();
    };
    read();
    /** @type {number | undefined} */
    let timer;
    const off = onPatch((patch) => {
      if (patch.kind !== "reset" && (!kinds.includes(patch.kind) || !concerns(patch))) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        read();
      }, delay); // patches come in bursts
    });
    return () => {
      abort.abort();
      retry.stop();
      shown.gone();
      off();
      clearTimeout(timer);
    };
  }, [key]);
  return state;
}
