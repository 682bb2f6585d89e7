// Shared by clear and mark: options that widen the selection, and a preview of the affected task instances.
import { html, useEffect, useState } from "../../lib/html.js";
import { post } from "../../lib/api.js";
import { runName, taskName } from "../../lib/names.js";
import { byState } from "../../lib/states.js";
import { Loading, Notice, State } from "../basics.js";

/** @typedef {Record<string, boolean>} Flags options that are chosen, by name */

/** @type {[name: string, label: string, flag: string, ofRuns?: boolean][]} */
export const OPTIONS = [
  ["only_failed", "Only failed", "--only-failed", true],
  ["upstream", "Include upstream", "--upstream"],
  ["downstream", "Include downstream", "--downstream"],
  ["past", "Include earlier runs", "--past"],
  ["future", "Include later runs", "--future"],
  ["newest_version", "Use latest DAG version", "--newest-version", true],
  ["prevent_running", "Refuse if tasks are running", "--prevent-running", true],
];

/** @param {Flags} options */
export const flagsOf = (options) => OPTIONS.filter(([name]) => options[name]).map(([, , flag]) => flag);

/**
 * Checkboxes for the `usable` options.
 * @param {{ usable: typeof OPTIONS, options: Flags, setOptions: (options: Flags) => void }} props
 */
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
 * What an action would do, or that no scheduler can say it.
 * @typedef {(Api["ClearAnswer"] & { accepted?: undefined }) | { accepted: true, count?: undefined }} Touching
 */

/**
 * @template [T=Touching]
 * @typedef {{ preview?: T, error?: Error }} DryRun
 */

/**
 * The result of the dry run of an action; empty until it arrives.
 * @template [T=Touching]
 * @param {string | null} address null: no dry run
 * @param {object} body
 * @param {unknown} [again] another value asks again
 * @returns {DryRun<T>}
 */
export function useDryRun(address, body, again) {
  const [found, setFound] = useState(/** @type {DryRun<T> & { request?: string | null }} */ ({}));
  const request = address && JSON.stringify([address, body]);
  useEffect(() => {
    if (!address) return undefined;
    const abort = new AbortController();
    post(address, { ...body, dry_run: true }, { signal: abort.signal }).then(
      (preview) => setFound({ request, preview }),
      (error) => {
        if (error.name !== "AbortError") setFound({ request, error });
      },
    );
    return () => abort.abort();
  }, [request, again]);
  return found.request === request ? found : {}; // never the result of another request
}

/**
 * The number of instances per state.
 * @param {{ states: Record<string, number> }} props
 */
export const Counts = ({ states }) => html`
  <span class="row">
    ${byState(states).map(([name, count]) => html`
      <${State} name=${name} count=${count} />
    `)}
  </span>
`;

/**
 * What markers lead to in other DAGs, as one sentence.
 * @param {Api["Dependent"][]} dependents
 */
function behindMarkers(dependents) {
  const dags = [...new Set(dependents.map((one) => one.dag_id))].sort().join(", ");
  return `Markers lead to ${dependents.length} more ${dependents.length === 1 ? "instance" : "instances"}, of ${dags}.`;
}

/**
 * The instances an action would affect: `none` is shown if there are none, `effect` says what happens to them,
 * `label` describes the list.
 * @param {DryRun & { none: string, effect: string, label: string }} props
 */
export function Preview({ preview, error, none, effect, label }) {
  if (error) return html`<${Notice} kind="danger">${error.message}<//>`;
  if (!preview) return html`<${Loading} lines=${3} />`;
  if (preview.accepted)
    return html`
      <${Notice} kind="warn">
        No scheduler is responding, so there is no preview. The request will wait until one does.
      <//>
    `;
  if (!preview.count) return html`<${Notice}>${none}<//>`;
  const shown = preview.instances.slice(0, 100);
  return html`
    <div class="stack tight" role="status">
      <b>
        ${preview.count} ${preview.count === 1 ? "instance" : "instances"} in ${preview.runs.length}${" "}
        ${preview.runs.length === 1 ? "run" : "runs"} ${effect}
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
                <td class="clip" title=${one.run_id}>
                  ${runName(one.run_id)}
                </td>
                <td>
                  <${State} name=${one.state ?? "none"} />
                </td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      ${preview.count > shown.length && html`<span class="faint">and ${preview.count - shown.length} more</span>`}
      ${preview.dependents.length > 0 && html`<span>${behindMarkers(preview.dependents)}</span>`}
    </div>
  `;
}
