// What an action on task instances touches: options that widen it, and the instances as a dry run finds them.
import { html, useEffect, useState } from "../../lib/html.js";
import { post } from "../../lib/api.js";
import { taskName } from "../../lib/names.js";
import { byState } from "../../lib/states.js";
import { Loading, Notice, State } from "../basics.js";

/** @type {[string, string, string, boolean?][]} */
export const OPTIONS = [
  // name, words, flag, whether for whole runs, too
  ["only_failed", "Only failed ones", "--only-failed", true],
  ["upstream", "Also what is before them", "--upstream"],
  ["downstream", "Also what is behind them", "--downstream"],
  ["past", "Also in earlier runs", "--past"],
  ["future", "Also in later runs", "--future"],
  ["newest_version", "With the DAG as it is now", "--newest-version", true],
  ["prevent_running", "Not if some are running", "--prevent-running", true],
];

export const flagsOf = (options) => OPTIONS.filter(([name]) => options[name]).map(([, , flag]) => flag);

/** Options to tick; `usable` are those that make sense here. */
export const Options = ({ usable, options, setOptions }) => html`
  <div class="row wide">
    ${usable.map(([name, words]) => html`
      <label class="row">
        <input
          type="checkbox"
          checked=${!!options[name]}
          onChange=${(e) => setOptions({ ...options, [name]: e.target.checked })}
        />${" "}
        ${words}
      </label>
    `)}
  </div>
`;

/**
 * The answer to the dry run of an action: nothing until it is there.
 * @param {string | null} address null: nothing to ask
 * @param {object} body
 * @returns {{ preview?: any, error?: Error }}
 */
export function useDryRun(address, body) {
  const [found, setFound] = useState(/** @type {any} */ ({}));
  const wish = address && JSON.stringify([address, body]);
  useEffect(() => {
    if (!address) return undefined;
    const abort = new AbortController();
    post(address, { ...body, dry_run: true }, { signal: abort.signal }).then(
      (preview) => setFound({ wish, preview }),
      (error) => {
        if (error.name !== "AbortError") setFound({ wish, error });
      },
    );
    return () => abort.abort();
  }, [wish]);
  return found.wish === wish ? found : {}; // never that of another wish
}

/** How many instances of which states: `states` are counts. */
export const Counts = ({ states }) => html`
  <span class="row">
    ${byState(states).map(([name, count]) => html`
      <${State} name=${name} count=${count} />
    `)}
  </span>
`;

/**
 * What an action would touch; `none` tells that it is nothing, `becomes` what happens to it, `label` what the list
 * is of.
 * @param {{ preview?: any, error?: Error, none: string, becomes: string, label: string }} props
 */
export function Preview({ preview, error, none, becomes, label }) {
  if (error) return html`<${Notice} kind="danger">${error.message}<//>`;
  if (!preview) return html`<${Loading} lines=${3} />`;
  if (preview.accepted)
    return html`
      <${Notice} kind="warn">
        No scheduler answers now, so there is no preview. The request would wait until one does.
      <//>
    `;
  if (!preview.count) return html`<${Notice}>${none}<//>`;
  const shown = preview.instances.slice(0, 100);
  return html`
    <div class="stack tight" role="status">
      <b>
        ${preview.count} ${preview.count === 1 ? "instance" : "instances"} in ${preview.runs.length}${" "}
        ${preview.runs.length === 1 ? "run" : "runs"} ${becomes}
      </b>
      <${Counts} states=${preview.states} />
      <div class="scroll preview" tabindex="0" role="group" aria-label=${label}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Run</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            ${shown.map((one) => html`
              <tr key=${`${one.run_id} ${one.task_id} ${one.map_index}`}>
                <td>${taskName(one)}</td>
                <td class="clip">${one.run_id}</td>
                <td>
                  <${State} name=${one.state ?? "none"} />
                </td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      ${preview.count > shown.length && html`<span class="faint">and ${preview.count - shown.length} more</span>`}
    </div>
  `;
}
