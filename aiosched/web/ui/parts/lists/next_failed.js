// The next that failed, of the list from which one comes: from one to the other without going back.
import { html, useEffect } from "../../lib/html.js";
import { useKey } from "../../lib/keys.js";
import { useResource } from "../../lib/resources.js";
import { go, keep, kept } from "../../lib/router.js";
import { Link } from "../basics.js";

/**
 * Says which list this is to the pages that are opened from it.
 * @param {string} path of the API
 * @param {object} params
 */
export const useAsList = (path, params) =>
  useEffect(() => keep("list", { path, params }), [path, JSON.stringify(params)]);

/**
 * `after` names this run or task for the API, `pathOf` is the path of the page of another.
 * @param {{ list: string, after: object, pathOf: (one: any) => string }} props
 */
export function NextFailed({ list: path, after, pathOf }) {
  const list = kept("list");
  const filters = list?.path === path ? list.params : {};
  /** @type {Resource<{ items: any[] }>} */
  const found = useResource(path, { ...filters, state: "failed", not_state: null, ...after, limit: 1 });
  const next = found.data.value?.items[0];
  const to = next && pathOf(next);
  useKey("n", "next that failed", () => to && go(to));
  return (
    to && html`
      <${Link} class="button quiet" to=${to} aria-keyshortcuts="n" title=${`${next.dag_id} ${next.run_id}`}>
        Next failed ›
      <//>
    `
  );
}
