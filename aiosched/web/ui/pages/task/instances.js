// The instances of a mapped task, shown when the URL has no map index.
import { html } from "../../lib/html.js";
import { taskName, taskPath } from "../../lib/names.js";
import { path } from "../../lib/router.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, Page, State, When } from "../../parts/basics.js";
import { Table } from "../../parts/table.js";

/**
 * @param {string} dag
 * @param {string} run
 * @returns {[string, string][]}
 */
export const crumbsOf = (dag, run) => [
  ["DAGs", "/dags"],
  [dag, path("dags", dag)],
  [run, path("dags", dag, "runs", run)],
];

/**
 * The instances of a mapped task, shown when the URL has no map index.
 * @param {{ dag: string, run: string, task: string, list: List<Api["TaskInstanceResource"]> }} props
 */
export function Instances({ dag, run, task, list }) {
  /** @type {Column<Api["TaskInstanceResource"]>[]} */
  const columns = [
    {
      head: "Instance",
      cell: (t) => html`<${Link} to=${taskPath({ ...t, dag_id: dag, run_id: run })}>${taskName(t)}<//>`,
    },
    { head: "State", cell: (t) => html`<${State} name=${t.state} />` },
    { head: "Try", right: true, cell: (t) => t.try_number || "–" },
    { head: "Started", cell: (t) => html`<${When} at=${t.start_date} />` },
    {
      head: "Duration",
      right: true,
      cell: (t) => (t.start_date ? duration(secondsBetween(t.start_date, t.end_date)) : "–"),
    },
  ];
  const empty = html`
    <${Empty} title=${`The run has no instances of ${task}`}>
      The task may have a different name, or what it maps over is not known yet.
    <//>
  `;
  return html`
    <${Page}
      title=${task}
      crumbs=${crumbsOf(dag, run)}
      lead=${list.items.value.length > 0 && "a mapped task with these instances in this run"}
    >
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          keyOf=${(t) => t.map_index}
          empty=${empty}
          caption="Instances"
        />
      <//>
    <//>
  `;
}
