// The grid tab of a DAG: filters, and the empty state.
import { html, useMemo } from "../../lib/html.js";
import { scheduleWords } from "../../lib/cron.js";
import { query, setQuery } from "../../lib/router.js";
import { RUN_STATES, RUN_TYPES, runTypeWords, stateOf } from "../../lib/states.js";
import { Empty, Failure, Loading } from "../basics.js";
import { commandLine } from "../dialog.js";
import { FilterField } from "../facts.js";
import { useGrid } from "./data.js";
import { foldedGroups } from "./folding.js";
import { Grid } from "./grid.js";

const LIMITS = [30, 100, 365];

/** @param {{ dagId: string, dag: Api["DagDetails"] }} props */
export function GridTab({ dagId, dag }) {
  const { limit = "30", state, type, before } = query.value;
  const startedAt = useMemo(() => performance.now(), [dagId, limit, state, type, before]);
  const grid = useGrid(dagId, { limit, state, run_type: type, cursor: before });
  const data = grid.data.value;
  return html`
    <div class="stack">
      <${Filters} older=${data?.next_cursor} groups=${groupsOf(data)} />
      ${data === null ? (
        grid.error.value ? html`
          <${Failure} error=${grid.error.value} retry=${grid.reload} />
        ` : html`
          <${Loading} lines=${8} />
        `
      ) : data.runs.length === 0 ? html`
        <${NoRun} dag=${dag} filtered=${state || type} />
      ` : html`
        <${Grid} dagId=${dagId} grid=${data} startedAt=${startedAt} />
      `}
    </div>
  `;
}

/** @param {Api["Grid"] | null} grid */
const groupsOf = (grid) => (grid?.rows ?? []).filter((row) => row.kind === "group").map((row) => row.id);

/**
 * The filters; `older` is the cursor of older runs, if there are any, `groups` are the ids of all task groups.
 * @param {{ older: string | null | undefined, groups: string[] }} props
 */
function Filters({ older, groups }) {
  const { limit = "30", state, type, before } = query.value;
  return html`
    <div class="row">
      <${Choice}
        words="Runs"
        value=${limit}
        options=${LIMITS.map((n) => [n, `last ${n}`])}
        onChange=${(value) => setQuery({ limit: value === "30" ? null : value })}
      />
      <${Choice}
        words="State"
        value=${state ?? ""}
        options=${[["", "any"], ...RUN_STATES.map((name) => [name, stateOf(name).label])]}
        onChange=${(value) => setQuery({ state: value, before: null })}
      />
      <${Choice}
        words="Type"
        value=${type ?? ""}
        options=${[["", "any"], ...RUN_TYPES.map((name) => [name, runTypeWords(name)])]}
        onChange=${(value) => setQuery({ type: value, before: null })}
      />
      <${FilterField} name="tasks" words="Filter tasks" />
      ${groups.length > 0 && html`
        <button
          class="button"
          onClick=${() => setQuery({ fold: foldedGroups().size ? null : groups.sort().join(",") })}
        >
          ${foldedGroups().size ? "Unfold all" : "Fold all"}
        </button>
      `}
      ${older && html`
        <button class="button" onClick=${() => setQuery({ before: older }, { push: true })}>
          ‹ Older
        </button>
      `}
      ${before && html`
        <button class="button" onClick=${() => setQuery({ before: null })}>
          Newest ›
        </button>
      `}
    </div>
  `;
}

/**
 * @param {{ words: string, value: string, options: [string | number, string][],
 *   onChange: (value: string) => void }} props
 */
function Choice({ words, value, options, onChange }) {
  return html`
    <label class="row soft">
      ${words}${" "}
      <select class="input" value=${value} onChange=${(e) => onChange(e.target.value)}>
        ${options.map(([key, text]) => html`
          <option value=${key}>${text}</option>
        `)}
      </select>
    </label>
  `;
}

/** What makes the first run of a DAG, in words. @param {Pick<Api["DagDetails"], "quarantine" | "schedule">} dag */
export function firstRunWords({ quarantine, schedule }) {
  if (quarantine) return "None is created while the DAG is in quarantine.";
  if (scheduleWords(schedule).words === "manual") return "Trigger one: this DAG has no schedule.";
  return "Trigger one, or wait for the next scheduled run.";
}

/** @param {{ dag: Api["DagDetails"], filtered: boolean }} props */
function NoRun({ dag, filtered }) {
  if (filtered) return html`<${Empty} title="No matching runs">Try a different filter.<//>`;
  return html`
    <${Empty} title="No runs yet" command=${dag.quarantine ? null : commandLine("dags trigger", [dag.dag_id])}>
      ${firstRunWords(dag)}
    <//>
  `;
}
