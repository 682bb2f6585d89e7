// Rows that are selected in a list, and what can be done to all of them.
import { html, useState } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { BulkDialog } from "./bulk.js";

/**
 * The selection of a list: the keys of its rows.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 */
export function useSelection(items, keyOf) {
  const [keys, setKeys] = useState(/** @type {Set<string>} */ (new Set()));
  const chosen = items.filter((item) => keys.has(keyOf(item)));
  /** @param {T[]} some @param {boolean} on */
  const set = (some, on) => {
    const next = new Set(keys);
    for (const item of some) next[on ? "add" : "delete"](keyOf(item));
    setKeys(next);
  };
  return {
    chosen,
    set,
    clear: () => setKeys(new Set()),
    has: (/** @type {T} */ item) => keys.has(keyOf(item)),
  };
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
 * @param {{ count: number, noun: string, actions: string[], body: import("./bulk.js").Places,
 *   onDone: () => void }} props
 */
export function SelectionBar({ count, noun, actions, body, onDone }) {
  const [open, setOpen] = useState(
    /** @type {{ action: string, count: number, places: import("./bulk.js").Places } | null} */ (null),
  );
  return html`
    ${count > 0 && html`
      <div class="row selection" role="group" aria-label="Selected rows">
        <b>${count} selected</b>
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
