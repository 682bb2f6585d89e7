// What the lines of a chart are, and their values: under the pointer, else the latest; and the steps of its axes.
import { html } from "../lib/html.js";

/** Steps of seconds that people count in. */
export const SECONDS = [
  ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200],
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400),
];
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
