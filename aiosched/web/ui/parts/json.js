// JSON for people: a tree whose branches open, lists of rows as tables.
import { html, useState } from "../lib/html.js";
import { counted, numeral } from "../lib/names.js";
import { CopyButton } from "./copy.js";
import { pretty } from "./facts.js";

const AT_ONCE = 100; // items that are shown until more are asked for
const LONGEST = 2_000; // characters of a text that are shown at first
const MOST_COLUMNS = 40;

/**
 * @param {any} value
 * @returns {value is Record<string, any>}
 */
const isObject = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Number);

/**
 * Any JSON value, with a button that copies all of it.
 * @param {{ value: any }} props
 */
export const Json = ({ value }) => html`
  <div class="text json">
    <${CopyButton} text=${typeof value === "string" ? value : pretty(value)} />
    <${Value} value=${value} depth=${0} />
  </div>
`;

/**
 * The columns and rows of a value that is a table: a list of objects with the same keys, or columns with their data.
 * @param {any} value
 * @returns {{ columns: string[], rows: any[][] } | null}
 */
function tableOf(value) {
  if (isObject(value) && Array.isArray(value.columns) && Array.isArray(value.data)) {
    const { columns, data } = value;
    const fits = data.every((row) => Array.isArray(row) && row.length === columns.length);
    return fits && columns.length && columns.length <= MOST_COLUMNS
      ? { columns: columns.map(String), rows: data }
      : null;
  }
  if (!Array.isArray(value) || !value.length || !value.every(isObject)) return null;
  const columns = Object.keys(value[0]);
  const isSame = (/** @type {object} */ row) =>
    Object.keys(row).length === columns.length && columns.every((name) => Object.hasOwn(row, name));
  if (!columns.length || columns.length > MOST_COLUMNS || !value.every(isSame)) return null;
  return { columns, rows: value.map((row) => columns.map((name) => row[name])) };
}

/** @param {{ value: any, depth: number }} props @returns {Content} */
export function Value({ value, depth }) {
  const table = tableOf(value);
  if (table) return html`<${Frame} ...${table} depth=${depth} />`;
  if (Array.isArray(value))
    return html`
      <${Branch}
        entries=${value.map((one, i) => [i, one])}
        words=${counted(value.length, "item")}
        depth=${depth}
      />
    `;
  if (isObject(value))
    return html`
      <${Branch}
        entries=${Object.entries(value)}
        words=${counted(Object.keys(value).length, "key")}
        depth=${depth}
      />
    `;
  return html`<${Leaf} value=${value} />`;
}

/** @param {{ value: any }} props */
function Leaf({ value }) {
  const [all, setAll] = useState(false);
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  if (all || text.length <= LONGEST) return html`<code class=${`of-${typeof value}`}>${text}</code>`;
  return html`
    <code class="of-string">${text.slice(0, LONGEST)}…</code>
    <button type="button" class="button small" onClick=${() => setAll(true)}>
      Show all ${numeral(text.length)} characters
    </button>
  `;
}

/** @param {{ entries: [string | number, any][], words: string, depth: number }} props */
function Branch({ entries, words, depth }) {
  const [open, setOpen] = useState(depth === 0 || (depth < 3 && entries.length <= 20));
  const [most, setMost] = useState(AT_ONCE);
  if (!entries.length) return html`<span class="faint">${words}</span>`;
  return html`
    <details
      class="branch"
      open=${open}
      onToggle=${(/** @type {any} */ e) => e.target === e.currentTarget && setOpen(e.target.open)}
    >
      <summary>${words}</summary>
      ${open && html`
        <dl>
          ${entries.slice(0, most).map(([name, one]) => html`
            <div key=${name}>
              <dt>${name}</dt>
              <dd>
                <${Value} value=${one} depth=${depth + 1} />
              </dd>
            </div>
          `)}
        </dl>
        ${entries.length > most && html`<${More} left=${entries.length - most} onMore=${() => setMost(most * 4)} />`}
      `}
    </details>
  `;
}

/** @param {{ columns: string[], rows: any[][], depth: number }} props */
function Frame({ columns, rows, depth }) {
  const [most, setMost] = useState(AT_ONCE);
  const isNumber = (/** @type {any} */ cell) => typeof cell === "number" || cell instanceof Number;
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label=${counted(rows.length, "row")}>
      <table class="table">
        <caption class="faint">${counted(rows.length, "row")}</caption>
        <thead>
          <tr>
            ${columns.map((name) => html`
              <th scope="col">${name}</th>
            `)}
          </tr>
        </thead>
        <tbody>
          ${rows.slice(0, most).map((row, i) => html`
            <tr key=${i}>
              ${row.map((cell) => html`
                <td class=${isNumber(cell) ? "right tabular" : ""}>
                  ${typeof cell === "string" ? cell : html`<${Value} value=${cell} depth=${depth + 3} />`}
                </td>
              `)}
            </tr>
          `)}
        </tbody>
      </table>
    </div>
    ${rows.length > most && html`<${More} left=${rows.length - most} onMore=${() => setMost(most * 4)} />`}
  `;
}

/** @param {{ left: number, onMore: () => void }} props */
const More = ({ left, onMore }) => html`
  <button type="button" class="button small" onClick=${onMore}>
    Show more of ${numeral(left)}
  </button>
`;
