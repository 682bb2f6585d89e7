// Text that authors write for people: Markdown, without HTML and pictures.
import { html, useMemo } from "../lib/html.js";
import { blocksOf } from "../lib/markdown.js";

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  return html`<div class="markdown">${blocks.map(block)}</div>`;
}

/** @param {Piece[]} all @returns {Content} */
const pieces = (all) => all.map(piece);

/** @param {Piece} one @returns {Content} */
function piece(one) {
  if (one[0] === "text") return one[1];
  if (one[0] === "code") return html`<code>${one[1]}</code>`;
  if (one[0] === "strong") return html`<strong>${pieces(one[1])}</strong>`;
  if (one[0] === "em") return html`<em>${pieces(one[1])}</em>`;
  return html`
    <a href=${one[1]} target="_blank" rel="noreferrer noopener">
      ${pieces(one[2])}
    </a>
  `;
}

/** @param {Block} one @returns {Content} */
function block(one) {
  if (one[0] === "heading")
    return html`
      <p class=${one[1] < 3 ? "large" : ""}>
        <strong>${pieces(one[2])}</strong>
      </p>
    `;
  if (one[0] === "paragraph") return html`<p>${pieces(one[1])}</p>`;
  if (one[0] === "code") return html`<pre tabindex="0">${one[1]}</pre>`;
  if (one[0] === "quote") return html`<blockquote>${one[1].map(block)}</blockquote>`;
  if (one[0] === "rule") return html`<hr />`;
  if (one[0] === "table") return table(one[1], one[2]);
  const items = one[2].map((inner) => html`
    <li>${inner.length === 1 && inner[0][0] === "paragraph" ? pieces(inner[0][1]) : inner.map(block)}</li>
  `);
  return one[1] ? html`<ol>${items}</ol>` : html`<ul>${items}</ul>`;
}

/** @param {Piece[][]} head @param {Piece[][][]} rows */
const table = (head, rows) => html`
  <div class="scroll">
    <table class="table">
      <thead>
        <tr>
          ${head.map((cell) => html`
            <th scope="col">${pieces(cell)}</th>
          `)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`
          <tr>
            ${row.map((cell) => html`
              <td>${pieces(cell)}</td>
            `)}
          </tr>
        `)}
      </tbody>
    </table>
  </div>
`;
