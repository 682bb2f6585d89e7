// Tables for paged lists, with a "Show more" button, empty and error states; on a phone each row is a card.
import { classes, html } from "../lib/html.js";
import { Failure, Loading, Stale } from "./basics.js";

const CUT = 150; // px that a column without a width has at least

/**
 * The name of a column on a card; columns whose head is not text may have a `label`.
 * @param {{ head: Content, label?: string }} column
 */
const nameOf = ({ head, label }) => label ?? (typeof head === "string" && head ? head : null);

/** @param {Column<any>} column */
const classOf = ({ right, stays, least }) =>
  classes(right && "right", stays && `stays-${stays}`, least && `least-${least}`);

/**
 * `columns` are of the type `Column`; the rows come from `list` (see `useList`) or `items`.
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
  const isFixed = columns.some((c) => c.width);
  const least = columns.reduce((sum, c) => sum + (c.least ? 0 : (c.width ?? CUT)), 0);
  return html`
    <${Stale} error=${list?.error.value} />
    <div class="scroll">
      <table class=${classes("table", "cards", isFixed && "fixed")} style=${{ "--least": `${least}px` }}>
        ${caption && html`<caption class="hidden-text">${caption}</caption>`}
        <thead>
          <tr>
            ${columns.map((c) => html`
              <th
                scope="col"
                class=${classOf(c)}
                style=${c.width && { width: `${c.width}px` }}
                aria-sort=${c.sorted}
              >
                ${c.head}
              </th>
            `)}
          </tr>
        </thead>
        <tbody>
          ${rows.map((item) => html`
            <tr key=${keyOf(item)}>
              ${columns.map((c) => html`
                <td class=${classes(classOf(c), c.right && "tabular")} data-head=${nameOf(c)}>
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
