// What the lines of a chart are, and their values: under the pointer, else the latest; and the steps of its numbers.
import { html } from "../lib/html.js";

/** Steps of numbers. */
export const NUMBERS = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((ten) => [
  ten,
  ten * 2,
  ten * 5,
]);

/**
 * @param {{ lines: { name: string, colour: string, values: (number | null)[] }[], place: number | null | undefined,
 *   words: (value: number) => string, at?: string }} props `at` says which place it is
 */
export const Legend = ({ lines, place, words, at }) => html`
  <ul class="chart-legend">
    ${lines.map(({ name, colour, values }) => {
      const value = typeof place === "number" ? values[place] : values.findLast((one) => one !== null);
      return html`
        <li key=${name}>
          <i style=${{ "--c": `var(${colour})` }} />
          ${name} <b>${value === null || value === undefined ? "–" : words(value)}</b>
        </li>
      `;
    })}
    ${typeof place === "number" && at && html`<li class="faint">${at}</li>`}
  </ul>
`;
