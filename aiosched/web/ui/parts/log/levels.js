// The lines of a log of a level and above: warnings and errors with their tracebacks. A line leads to its place.
import { html, useEffect, useState } from "../../lib/html.js";
import { get } from "../../lib/api.js";
import { here, href, query } from "../../lib/router.js";
import { Empty, Failure, Loading } from "../basics.js";

/** @type {Choice[]} */
export const LEVELS = [
  ["warning", "Warnings and errors"],
  ["error", "Errors"],
];

const STEP = 500; // lines in one answer

/**
 * @param {number} line from 0
 */
function placeOf(line) {
  const { level, ...rest } = query.value; // the whole log is shown around the line
  return href(`${here.value.path}?${new URLSearchParams({ ...rest, line: String(line + 1) })}`);
}

/**
 * `size` is that of the log: it is read again when that changes.
 * @param {{ path: string, params: object, level: string, size: number }} props
 */
export function LevelLines({ path, params, level, size }) {
  const [found, setFound] = useState(/** @type {Api["LevelLines"] | null} */ (null));
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  const [after, setAfter] = useState(-1);
  useEffect(() => {
    const abort = new AbortController();
    get(`${path}/lines`, { ...params, level, after, limit: STEP }, { signal: abort.signal }).then(
      (answer) => {
        setFound((before) =>
          after < 0 || !before ? answer : { ...answer, lines: upTo(before.lines, after).concat(answer.lines) },
        );
        setError(null);
      },
      (problem) => problem.name !== "AbortError" && setError(problem),
    );
    return () => abort.abort();
  }, [path, level, size, after]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!found) return html`<${Loading} lines=${4} />`;
  if (!found.lines.length) return html`<${Empty} title="No lines of this level" />`;
  const { lines, next } = found;
  return html`
    <div class="pane levels wrap" tabindex="0" role="region" aria-label="Log">
      ${lines.map(({ line, text }) => html`
        <div class="line" key=${line} data-line=${line + 1}>
          <a class="no" href=${placeOf(line)} title="Show in the whole log">
            ${line + 1}
          </a>
          <span class="text">${text}</span>
        </div>
      `)}
      ${next !== null && html`
        <button class="button small" onClick=${() => setAfter(next)}>
          Show more
        </button>
      `}
    </div>
  `;
}

/**
 * @param {Api["LevelLine"][]} lines
 * @param {number} line
 */
const upTo = (lines, line) => lines.filter((one) => one.line <= line);
