// The lines of a log of a level and above: warnings and errors with their tracebacks. A line leads to its place.
import { html, useEffect, useState } from "../../lib/html.js";
import { get } from "../../lib/api.js";
import { here, href, query } from "../../lib/router.js";
import { Empty, Loading } from "../basics.js";

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
 * Read again when the log has grown, and after an outage.
 * @param {{ viewer: import("./viewer.js").Viewer, path: string, params: object, level: string }} props
 */
export function LevelLines({ viewer, path, params, level }) {
  const [found, setFound] = useState(/** @type {Api["LevelLines"] | null} */ (null));
  const [after, setAfter] = useState(-1);
  useEffect(() => {
    if (viewer.outage) return undefined;
    const abort = new AbortController();
    get(`${path}/lines`, { ...params, level, after, limit: STEP }, { signal: abort.signal }).then(
      (answer) => {
        setFound((before) =>
          after < 0 || !before ? answer : { ...answer, lines: upTo(before.lines, after).concat(answer.lines) },
        );
      },
      (problem) => viewer.fail(problem),
    );
    return () => abort.abort();
  }, [path, level, viewer.file.size, after, viewer.outage]);
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
