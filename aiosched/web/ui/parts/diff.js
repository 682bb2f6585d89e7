// Changes of a text, line by line: beneath each other or side by side.
import { classes, html, useEffect, useMemo, useState } from "../lib/html.js";
import { pairsOf, rowsOf } from "../lib/lines.js";

/** @typedef {import("../lib/lines.js").Row} Row */

/** @param {Row | null} row */
const half = (row) => html`
  <td class=${classes("no", row?.kind)}>${row?.number}</td>
  <td class=${row ? row.kind : "none"}>
    <code>${row?.text}</code>
  </td>
`;

/** @param {{ rows: Row[] }} props */
const Together = ({ rows }) => html`
  <table>
    <tbody>
      ${rows.map(({ kind, before, after, line }, i) => html`
        <tr key=${i} class=${kind}>
          <td class="no">${before}</td>
          <td class="no">${after}</td>
          <td>
            <code>${line}</code>
          </td>
        </tr>
      `)}
    </tbody>
  </table>
`;

/** @param {{ rows: Row[] }} props */
const Sides = ({ rows }) => html`
  <table class="sides">
    <colgroup>
      <col class="no" />
      <col />
      <col class="no" />
      <col />
    </colgroup>
    <tbody>
      ${pairsOf(rows).map(([one, two], i) =>
        one?.kind === "hunk" ? html`
          <tr key=${i} class="hunk">
            <td colspan="4">
              <code>${one.text}</code>
            </td>
          </tr>
        ` : html`
          <tr key=${i}>
            ${half(one)} ${half(two)}
          </tr>
        `,
      )}
    </tbody>
  </table>
`;

const WIDE = "(min-width: 1100px)"; // a window that has room for two texts

/**
 * A unified diff with the line numbers of both sides.
 * @param {{ text: string, choose?: boolean }} props `choose`: the two texts can be shown side by side
 */
export function Diff({ text, choose = true }) {
  const [besides, setBesides] = useState(choose && matchMedia(WIDE).matches);
  useEffect(() => {
    const wide = matchMedia(WIDE);
    const turn = () => setBesides(choose && wide.matches);
    wide.addEventListener("change", turn);
    return () => wide.removeEventListener("change", turn);
  }, [choose]);
  const rows = useMemo(() => rowsOf(text), [text]);
  return html`
    ${choose && html`
      <div class="row diff-choice">
        <label class="row near soft">
          <input type="checkbox" checked=${besides} onChange=${(e) => setBesides(e.target.checked)} />
          Side by side
        </label>
      </div>
    `}
    <div class="scroll code diff" tabindex="0" role="group" aria-label="Changes">
      ${besides ? html`<${Sides} rows=${rows} />` : html`<${Together} rows=${rows} />`}
    </div>
  `;
}
