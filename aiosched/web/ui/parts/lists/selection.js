// Rows that are selected in a list, and what can be done to all of them.
import { html, useState } from "../../lib/html.js";
import { get, may } from "../../lib/api.js";
import { keep, kept } from "../../lib/router.js";
import { toast } from "../dialog.js";
import { BulkDialog } from "./bulk.js";

const MOST_SELECTED = 5000; // as the API takes at once

/**
 * The selection of a list: the keys of its rows, kept at this place of the history.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 */
export function useSelection(items, keyOf) {
  const [keys, setKeys] = useState(/** @type {Set<string>} */ (new Set(kept("selected"))));
  /** @param {Set<string>} next */
  const change = (next) => {
    setKeys(next);
    keep("selected", [...next]);
  };
  const [others, setOthers] = useState(/** @type {T[]} */ ([])); // that are not loaded in the list
  const loaded = new Set(items.map(keyOf));
  const chosen = [...items, ...others.filter((item) => !loaded.has(keyOf(item)))].filter((item) =>
    keys.has(keyOf(item)),
  );
  /** @param {T[]} some @param {boolean} on */
  const set = (some, on) => {
    const next = new Set(keys);
    for (const item of some) next[on ? "add" : "delete"](keyOf(item));
    change(next);
  };
  const clear = () => {
    setOthers([]);
    change(new Set());
  };
  /** Select all that a list of the API has, loaded or not. @param {string} path @param {object} params */
  const all = async (path, params) => {
    /** @type {T[]} */
    let found = [];
    let cursor = null;
    do {
      const page = await get(path, { ...params, cursor, limit: 500 });
      found = found.concat(page.items);
      cursor = page.next_cursor;
    } while (cursor && found.length < MOST_SELECTED);
    if (cursor) toast(`Only the first ${MOST_SELECTED} are selected: narrow the filters.`, "danger");
    setOthers(found.slice(0, MOST_SELECTED));
    change(new Set(found.slice(0, MOST_SELECTED).map(keyOf)));
  };
  return { chosen, set, clear, all, has: (/** @type {T} */ item) => keys.has(keyOf(item)) };
}

/**
 * The column with the checkboxes; empty for people who may do nothing.
 * @template T
 * @param {ReturnType<typeof useSelection<T>>} selection
 * @param {T[]} items
 * @param {(item: T) => string} nameOf
 * @returns {Column<T>[]}
 */
export function selectionColumn(selection, items, nameOf) {
  if (!may("operator")) return [];
  return [
    {
      head: html`
        <input
          type="checkbox"
          aria-label="Select all rows"
          checked=${items.length > 0 && selection.chosen.length === items.length}
          onChange=${(/** @type {FieldEvent} */ e) => selection.set(items, e.target.checked)}
        />
      `,
      label: "Select",
      width: 40,
      cell: (item) => html`
        <input
          type="checkbox"
          aria-label=${`Select ${nameOf(item)}`}
          checked=${selection.has(item)}
          onChange=${(/** @type {FieldEvent} */ e) => selection.set([item], e.target.checked)}
        />
      `,
    },
  ];
}

/**
 * The bar with the actions on the selected rows; `body` names them for the API. An open dialog keeps the rows with
 * which it was opened: they may leave the list meanwhile.
 * `all` selects also what the list has not loaded, if there is more.
 * @param {{ count: number, noun: string, actions: string[], body: import("./bulk.js").Places,
 *   onDone: () => void, all?: (() => Promise<void>) | false }} props
 */
export function SelectionBar({ count, noun, actions, body, onDone, all }) {
  const [open, setOpen] = useState(
    /** @type {{ action: string, count: number, places: import("./bulk.js").Places } | null} */ (null),
  );
  return html`
    ${count > 0 && html`
      <div class="row selection" role="group" aria-label="Selected rows">
        <b>${count} selected</b>
        ${all && html`
          <button class="button small" onClick=${all}>
            Select all that match
          </button>
        `}
        ${actions.map((one) => html`
          <button
            key=${one}
            class="button small"
            onClick=${() => setOpen({ action: one, count, places: body })}
          >
            ${one[0].toUpperCase() + one.slice(1)}
          </button>
        `)}
      </div>
    `}
    ${open && html`<${BulkDialog} ...${open} noun=${noun} onClose=${() => setOpen(null)} onDone=${onDone} />`}
  `;
}
