// The runs of a DAG: a run picker, and the list with filters.
import { html } from "../../lib/html.js";
import { useList, useResource } from "../../lib/resources.js";
import { path, query, setQuery } from "../../lib/router.js";
import { RUN_STATES, RUN_TYPES, runTypeWords, stateOf } from "../../lib/states.js";
import { instant, secondsBetween, startOfDay } from "../../lib/time.js";
import { Card, Duration, Empty, Link, State, When } from "../basics.js";
import { Filter, SearchField } from "../form.js";
import { Table } from "../table.js";

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

/**
 * The list of runs of one DAG.
 * @param {{ dagId: string }} props
 */
export function RunsTab({ dagId }) {
  const { state, type, q, since, until } = query.value;
  const params = {
    dag_id: dagId,
    state,
    run_type: type,
    search: q,
    since: startOfDay(since),
    until: startOfDay(until, 1),
  };
  /** @type {List<Api["RunResource"]>} */
  const list = useList("runs", params, {
    kinds: ["run"],
    concerns: (patch) => patch.dag_id === dagId,
    limit: 50,
  });
  const filtered = Boolean(state || type || q || since || until);
  const empty = html`<${NoRun} dagId=${dagId} filtered=${filtered} />`;
  return html`
    <div class="stack">
      <${Filters} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(dagId)}
          list=${list}
          keyOf=${(r) => r.key}
          empty=${empty}
          caption="Runs"
        />
      <//>
    </div>
  `;
}

/**
 * @param {string} dagId
 * @returns {Column<Api["RunResource"]>[]}
 */
const columnsOf = (dagId) => [
  { head: "State", cell: (r) => html`<${State} name=${r.state} />` },
  { head: "Run", cell: (r) => html`<${Link} to=${path("dags", dagId, "runs", r.run_id)}>${r.run_id}<//>` },
  { head: "Type", cell: (r) => runTypeWords(r.run_type) },
  { head: "Logical date", cell: (r) => html`<${When} at=${r.logical_date} />` },
  { head: "Started", cell: (r) => html`<${When} at=${r.start_date} ago />` },
  { head: "Duration", right: true, cell: (r) => html`<${Duration} seconds=${secondsOf(r)} />` },
  { head: "Version", right: true, cell: (r) => r.version },
  { head: "Note", cell: (r) => r.note ?? r.reason ?? "" },
];

/**
 * The duration of a run, up to now while it is running.
 * @param {Api["RunResource"]} run
 */
const secondsOf = (run) => run.seconds ?? (run.state === "running" ? secondsBetween(run.start_date) : null);

function Filters() {
  const { state, type, q, since, until } = query.value;
  /** @type {Choice[]} */
  const states = RUN_STATES.map((name) => [name, stateOf(name).label]);
  /** @type {Choice[]} */
  const types = RUN_TYPES.map((name) => [name, runTypeWords(name)]);
  return html`
    <div class="row">
      <${SearchField}
        label="Search runs"
        words="Search by run id"
        value=${q}
        onText=${(text) => setQuery({ q: text })}
      />
      <${Filter}
        label="State"
        value=${state}
        any="any state"
        options=${states}
        onText=${(text) => setQuery({ state: text })}
      />
      <${Filter}
        label="Type"
        value=${type}
        any="any type"
        options=${types}
        onText=${(text) => setQuery({ type: text })}
      />
      <${Day} words="from" value=${since} onText=${(text) => setQuery({ since: text })} />
      <${Day} words="until" value=${until} onText=${(text) => setQuery({ until: text })} />
    </div>
  `;
}

/** @param {{ words: string, value: string | undefined, onText: (text: string) => void }} props */
function Day({ words, value, onText }) {
  return html`
    <label class="row soft">
      ${words} <input class="input" type="date" value=${value ?? ""} onChange=${(e) => onText(e.target.value)} />
    </label>
  `;
}

/** @param {{ dagId: string, filtered: boolean }} props */
function NoRun({ dagId, filtered }) {
  const none = { state: null, type: null, q: null, since: null, until: null };
  if (filtered)
    return html`
      <${Empty} title="No matching runs">
        <button class="button" onClick=${() => setQuery(none)}>
          Clear filters
        </button>
      <//>
    `;
  return html`
    <${Empty} title="No runs yet" command=${`aiosched dags trigger ${dagId}`}>
      Trigger one, or wait for the next scheduled run.
    <//>
  `;
}
