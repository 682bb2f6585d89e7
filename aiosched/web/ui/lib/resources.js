// What the pages show of the API: resources and paged lists, read again when there is news of them.
import { signal, useEffect, useMemo } from "./html.js";
import { address, get } from "./api.js";
import { onPatch } from "./live.js";

/**
 * What `useResource` gives; `data` is null until it is there.
 * @typedef {object} Resource
 * @property {Signal<any>} data
 * @property {Signal<import("./api.js").Problem | null>} error
 * @property {Signal<boolean>} loading
 * @property {() => any} reload
 *
 * What `useList` gives; `more` is null where there is no further page.
 * @typedef {object} List
 * @property {Signal<any[]>} items
 * @property {Signal<import("./api.js").Problem | null>} error
 * @property {Signal<boolean>} loading
 * @property {Signal<string | null>} more
 * @property {() => any} next reads the next page
 * @property {() => any} reload begins again
 */

/**
 * `work` made to run once at a time: asked for meanwhile, it runs once more afterwards. So the last answer is the
 * newest.
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
 * A resource, read when the page shows it and again when news of one of `kinds` comes.
 * `path` null: nothing yet. `onNews(data, patch)` may apply a patch itself and return the new data; undefined means:
 * read again.
 * @param {string | null} path
 * @param {object} [params]
 * @param {{ kinds?: string[], concerns?: (patch: any) => boolean, onNews?: (data: any, patch: any) => any }} [news]
 * @returns {Resource}
 */
export function useResource(path, params = {}, { kinds = [], concerns = () => true, onNews } = {}) {
  const key = path === null ? null : address(path, params).href;
  const state = useMemo(
    () => ({ data: signal(null), error: signal(null), loading: signal(true), reload: () => {} }),
    [key],
  );
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const read = oneAtATime(async () => {
      try {
        state.data.value = await get(path, params, { signal: abort.signal });
        state.error.value = null;
      } catch (error) {
        if (error.name === "AbortError") return;
        state.error.value = error;
      }
      state.loading.value = false;
    });
    state.reload = read;
    read();
    const off = onPatch((patch) => {
      if (patch.kind === "reset") return void read(); // the stream could not be resumed: everything may have changed
      if (!kinds.includes(patch.kind) || !concerns(patch)) return;
      const next = onNews && state.data.value ? onNews(state.data.value, patch) : undefined;
      if (next === undefined) read();
      else state.data.value = next;
    });
    return () => {
      abort.abort();
      off();
    };
  }, [key]);
  return state;
}

/**
 * A paged list, `limit` items a page; news of `kinds` read it again after `calm` ms.
 * @param {string | null} path
 * @param {object} [params]
 * @param {{ kinds?: string[], concerns?: (patch: any) => boolean, limit?: number, calm?: number }} [options]
 * @returns {List}
 */
export function useList(
  path,
  params = {},
  { kinds = [], concerns = () => true, limit = 100, calm = 300 } = {},
) {
  const key = path === null ? null : address(path, params).href;
  const state = useMemo(
    () => ({
      items: signal([]),
      error: signal(null),
      loading: signal(true),
      more: signal(null),
      next: () => {},
      reload: () => {},
    }),
    [key],
  );
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    let pages = 1;
    const read = oneAtATime(async () => {
      state.loading.value = true;
      try {
        let items = [];
        let cursor = null;
        for (let page = 0; page < pages; page++) {
          const answer = await get(path, { ...params, limit, cursor }, { signal: abort.signal });
          items = items.concat(answer.items);
          cursor = answer.next_cursor ?? null;
          if (!cursor) break;
        }
        state.items.value = items;
        state.more.value = cursor;
        state.error.value = null;
      } catch (error) {
        if (error.name === "AbortError") return;
        state.error.value = error;
      }
      state.loading.value = false;
    });
    state.reload = read;
    state.next = () => {
      pages++;
      return read();
    };
    read();
    let due = null;
    const off = onPatch((patch) => {
      if (patch.kind !== "reset" && (!kinds.includes(patch.kind) || !concerns(patch))) return;
      due ??= setTimeout(() => {
        due = null;
        state.reload();
      }, calm); // news come in flocks
    });
    return () => {
      abort.abort();
      off();
      clearTimeout(due);
    };
  }, [key]);
  return state;
}
