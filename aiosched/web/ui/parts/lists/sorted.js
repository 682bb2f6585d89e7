// Columns by which a list can be sorted: their heads are buttons, the sorted one has an arrow.
import { html } from "../../lib/html.js";
import { setQuery } from "../../lib/router.js";

/**
 * The head of a column that sorts the list: newest first, then oldest first.
 * @param {{ name: string, words: string, order: string }} props
 */
export function SortHead({ name, words, order }) {
  const is = order.replace("-", "") === name;
  const isNewest = order.startsWith("-");
  const next = is && isNewest ? name : `-${name}`;
  return html`
    <button
      class="button quiet sort"
      title=${is && isNewest ? "Sorted, newest first. Sort oldest first" : "Sort newest first"}
      onClick=${() => setQuery({ order: next === "-run_after" ? null : next })}
    >
      ${words}
      ${is ? (isNewest ? " ▾" : " ▴") : ""}
    </button>
  `;
}

/**
 * Says by what a list is sorted.
 * @param {string} order
 */
export const orderWords = (order) =>
  `Sorted by ${order.endsWith("end_date") ? "end" : "run after"}, ${order.startsWith("-") ? "newest" : "oldest"} first`;
