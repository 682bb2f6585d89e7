// Tables for paged lists, with a "Show more" button, empty and error states; on a phone each row is a card.
import { html } from "../lib/html.js";
import { Failure, Loading, Stale } from "./basics.js";

/**
 * The name of a column on a card; columns whose head is not text may have a `label`.
 * @param {{ head: Content, label?: string }} column
 */
const nameOf = ({ head, label }) => label ?? (typeof head === "string" && head ? head : null);

/**
 * `columns` are `{head, cell(item), right, label, sorted}`; the rows come from `list` (see `useList`) or `items`.
 * `empty` is shown if there are no rows; `keyOf(item)` identifies a row.
 * @template T
 * @param {{ columns: Column<T>[], list?: List<T>, items?: T[], keyOf: (item: T) => string | number, empty?: Content,
 *   caption?: string }} props
 */
export function Table({ columns, list, items, keyOf, empty, caption }) {
  const rows = items ?? list?.items.value ?? [];
  if (list?.error.value && !rows.length) return html`<${Failure} error=${list.error.value} retry=${list.reload} />`;
  if (list?.loading.value && !rows.length)
    return html`
      <div class="body" style=${{ padding: "14px 16px" }}>
        <${Loading} />
      </div>
    `;
  if (!rows.length) return empty;
  return html`
    <${Stale} error=${list?.error.value} />
    <div class="scroll">
      <table class="table cards">
        ${caption && html`<caption class="hidden-text">${caption}</caption>`}
        <thead>
          <tr>
            ${columns.map((c) => html`
              <th scope="col" class=${c.right ? "right" : ""} aria-sort=${c.sorted}>
                ${c.head}
              </th>
            `)}
          </tr>
        </thead>
        <tbody>
          ${rows.map((item) => html`
            <tr key=${keyOf(item)}>
              ${columns.map((c) => html`
                <td class=${c.right ? "right tabular" : ""} data-head=${nameOf(c)}>
                  ${c.cell(item)}
                </td>
              `)}
            </tr>
          `)}
        </tbody>
      </table>
      ${list?.more.value && html`
        <div class="row" style=${{ padding: "10px 12px" }}>
          <button class="button" disabled=${list.loading.value} onClick=${() => list.next()}>
            Show more
          </button>
        </div>
      `}
    </div>
  `;
}
