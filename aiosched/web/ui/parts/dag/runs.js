// The runs of a DAG in a select.
import { html } from "../../lib/html.js";
import { useResource } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { runTypeWords, stateOf } from "../../lib/states.js";
import { instant } from "../../lib/time.js";

/**
 * A select for one of the latest runs, stored in the query string; `none` is the label of the empty option.
 * @param {{ dagId: string, none: string }} props
 */
export function RunPicker({ dagId, none }) {
  const runs = useLatestRuns(dagId) ?? [];
  return html`
    <${RunSelect} runs=${runs} none=${none} chosen=${query.value.run} onChoose=${(run) => setQuery({ run })} />
  `;
}

/** @param {Api["RunResource"]} run */
const dateOf = (run) => Date.parse(run.logical_date ?? run.run_after);

/**
 * The latest runs of a DAG by date, the latest first; null until they are loaded.
 * @param {string} dagId
 */
export function useLatestRuns(dagId) {
  /** @type {Resource<Api["Page_RunResource_"]>} */
  const list = useResource(
    "runs",
    { dag_id: dagId, limit: 50 },
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  if (list.error.value) return [];
  return list.data.value?.items.toSorted((a, b) => dateOf(b) - dateOf(a)) ?? null;
}

/**
 * A select for one of `runs`; `none` is the label of the empty option, `words` that of the select.
 * @param {{ runs: Api["RunResource"][], none: string, chosen: string | undefined, words?: string,
 *   onChoose: (run: string) => void }} props
 */
export function RunSelect({ runs, none, chosen = "", words = "Run", onChoose }) {
  const known = !chosen || runs.some((run) => run.run_id === chosen);
  return html`
    <label class="row soft">
      ${words}${" "}
      <select class="input picker" value=${chosen} onChange=${(e) => onChoose(e.target.value)}>
        <option value="">${none}</option>
        ${!known && html`<option value=${chosen}>${chosen}</option>`}
        ${runs.map((run) => html`
          <option key=${run.key} value=${run.run_id}>
            ${stateOf(run.state).glyph} ${instant(run.logical_date ?? run.run_after).slice(0, 16)} ·${" "}
            ${runTypeWords(run.run_type)}
          </option>
        `)}
      </select>
    </label>
  `;
}
