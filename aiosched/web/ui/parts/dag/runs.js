// The runs of a DAG: a picker for views of one run, and the list with its filters.
import { html } from "../../lib/html.js";
import { at, useList, useResource } from "../../lib/api.js";
import { path, query, setQuery } from "../../lib/router.js";
import { RUN_STATES, RUN_TYPES, runTypeWords, stateOf } from "../../lib/states.js";
import { instant, secondsBetween } from "../../lib/time.js";
import { Card, Duration, Empty, Link, State, When } from "../basics.js";
import { Table } from "../table.js";

/** Choose one of the last runs; it stands in the address as `run`. `none` are the words for no run at all. */
export function RunPicker({ dagId, none }) {
  const list = useResource(
    "runs",
    { dag_id: dagId, limit: 50 },
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  const runs = list.data.value?.items ?? [];
  const chosen = query.value.run ?? "";
  const known = !chosen || runs.some((run) => run.run_id === chosen);
  return html`
    <label class="row soft">
      Run${" "}
      <select class="input picker" value=${chosen} onChange=${(e) => setQuery({ run: e.target.value })}>
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

/** The list of runs of one DAG. */
export function RunsTab({ dagId }) {
  const { state, type, q, since, until } = query.value;
  const params = {
    dag_id: dagId,
    state,
    run_type: type,
    search: q,
    since: since && `${since}T00:00:00Z`,
    until: until && `${until}T00:00:00Z`,
  };
  const list = useList("runs", params, { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId, limit: 50 });
  const filtered = state || type || q || since || until;
  const columns = [
    { head: "State", cell: (r) => html`<${State} name=${r.state} />` },
    { head: "Run", cell: (r) => html`<${Link} to=${path("dags", dagId, "runs", r.run_id)}>${r.run_id}<//>` },
    { head: "Type", cell: (r) => runTypeWords(r.run_type) },
    { head: "Logical date", cell: (r) => html`<${When} at=${r.logical_date} />` },
    { head: "Started", cell: (r) => html`<${When} at=${r.start_date} ago />` },
    {
      head: "Took",
      right: true,
      cell: (r) => html`
        <${Duration} seconds=${r.seconds ?? (r.state === "running" ? secondsBetween(r.start_date) : null)} />
      `,
    },
    { head: "Version", right: true, cell: (r) => r.version },
    { head: "Note", cell: (r) => r.note ?? r.reason ?? "" },
  ];
  const empty = filtered ? html`
    <${Empty} title="No such run">
      <button
        class="button"
        onClick=${() => setQuery({ state: null, type: null, q: null, since: null, until: null })}
      >
        Remove the filters
      </button>
    <//>
  ` : html`
    <${Empty} title="No run yet" command=${`aiosched dags trigger ${dagId}`}>
      Trigger one, or wait for the next scheduled one.
    <//>
  `;
  return html`
    <div class="stack">
      <div class="row">
        <input
          class="input"
          type="search"
          placeholder="Part of the run id"
          aria-label="Search runs"
          value=${q ?? ""}
          onInput=${(e) => setQuery({ q: e.target.value })}
        />
        <select
          class="input"
          aria-label="State"
          value=${state ?? ""}
          onChange=${(e) => setQuery({ state: e.target.value })}
        >
          <option value="">any state</option>
          ${RUN_STATES.map((name) => html`
            <option value=${name}>${stateOf(name).label}</option>
          `)}
        </select>
        <select
          class="input"
          aria-label="Type"
          value=${type ?? ""}
          onChange=${(e) => setQuery({ type: e.target.value })}
        >
          <option value="">any type</option>
          ${RUN_TYPES.map((type) => html`
            <option value=${type}>${runTypeWords(type)}</option>
          `)}
        </select>
        <label class="row soft">
          from${" "}
          <input
            class="input"
            type="date"
            value=${since ?? ""}
            onChange=${(e) => setQuery({ since: e.target.value })}
          />
        </label>
        <label class="row soft">
          until${" "}
          <input
            class="input"
            type="date"
            value=${until ?? ""}
            onChange=${(e) => setQuery({ until: e.target.value })}
          />
        </label>
      </div>
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(r) => r.key} empty=${empty} caption="Runs" />
      <//>
    </div>
  `;
}
