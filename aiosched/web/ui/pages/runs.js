// All runs, newest first, filtered by state, type, DAG and run id.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { RUN_STATES, RUN_TYPES, runTypeWords } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { Card, Empty, Link, Page, State, Tag, When } from "../parts/basics.js";
import { Choices, FilterField } from "../parts/facts.js";
import { Table } from "../parts/table.js";

/**
 * The duration of a run; it keeps counting while the run is running.
 * @param {Api["RunResource"]} run
 */
const took = (run) => (run.start_date ? duration(secondsBetween(run.start_date, run.end_date)) : "–");

export function Runs() {
  const { state, run_type, dag_id, search } = query.value;
  /** @type {List<Api["RunResource"]>} */
  const list = useList("runs", { state, run_type, dag_id, search }, { kinds: ["run"], limit: 50 });
  const filtered = state || run_type || dag_id || search;
  /** @type {Column<Api["RunResource"]>[]} */
  const columns = [
    { head: "State", cell: (r) => html`<${State} name=${r.state} />` },
    { head: "DAG", cell: (r) => html`<${Link} to=${path("dags", r.dag_id)}>${r.dag_id}<//>` },
    {
      head: "Run",
      cell: (r) => html`
        <${Link} to=${path("dags", r.dag_id, "runs", r.run_id)} class="mono nowrap">
          ${r.run_id}
        <//>
        ${r.note && html`
          ${" "}
          <span class="note">${r.note}</span>
        `}
      `,
    },
    { head: "Type", cell: (r) => html`<${Tag}>${runTypeWords(r.run_type)}<//>` },
    { head: "Run after", cell: (r) => html`<${When} at=${r.run_after} />` },
    { head: "Started", cell: (r) => html`<${When} at=${r.start_date} />` },
    { head: "Duration", right: true, cell: (r) => html`<span class="nowrap">${took(r)}</span>` },
  ];
  const empty = filtered ? html`
    <${Empty} title="No matching runs">Clear a filter to see more.<//>
  ` : html`
    <${Empty} title="No runs yet" command="aiosched dags trigger DAG">
      Unpause a DAG with a schedule, or trigger one.
    <//>
  `;
  return html`
    <${Page}
      title="Runs"
      actions=${
        html`
          <${FilterField} name="dag_id" words="DAG id" />
          <${FilterField} name="search" words="Search by run id" />
        `
      }
    >
      <div class="row wide">
        <${Choices} name="state" label="State" options=${RUN_STATES.map((s) => [s, html`<${State} name=${s} />`])} />
        <${Choices}
          name="run_type"
          label="Type"
          options=${RUN_TYPES.map((type) => [type, runTypeWords(type)])}
        />
      </div>
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(r) => r.key} empty=${empty} caption="Runs" />
      <//>
    <//>
  `;
}
