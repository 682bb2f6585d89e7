// The details of a DAG: its settings, why it is waiting, upcoming runs, tasks and params.
import { html, useState } from "../../lib/html.js";
import { at, may, remove } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { operatorWords } from "../../lib/names.js";
import { go } from "../../lib/router.js";
import { duration } from "../../lib/time.js";
import { Card, Empty, Facts, Link, Shown, Tag, When } from "../basics.js";
import { Markdown } from "../markdown.js";
import { Confirm, commandLine } from "../dialog.js";
import { Schedule } from "../schedule.js";
import { Table } from "../table.js";
import { WhyCard } from "../why.js";

/** @typedef {import("../../lib/schema.js").Param} Param */

/**
 * What is shown of a serialized DAG.
 * @typedef {{ timezone?: string, start_date?: string, end_date?: string, catchup?: boolean, fail_fast?: boolean,
 *   allowed_run_types?: string[], dagrun_timeout?: number, params?: Record<string, Param>, doc_md?: string }} Spec
 */

/** @param {{ dagId: string, dag: Api["DagResource"] }} props */
export function DetailsTab({ dagId, dag }) {
  /** @type {Resource<Api["VersionDetails"]>} */
  const version = useResource(
    dag.version === null ? null : at("dags", dagId, "versions", dag.version),
    {},
    { kinds: ["dag"] },
  );
  return html`
    <div class="stack">
      <div class="columns">
        <${Card} title="Settings" actions=${may("admin") && html`<${Delete} dagId=${dagId} />`}>
          <${Shown} of=${version}>${({ spec }) => html`<${Settings} dag=${dag} spec=${spec} />`}<//>
        <//>
        <${Upcoming} dagId=${dagId} />
      </div>
      <${WhyCard} of=${at("dags", dagId)} concerns=${(patch) => !patch.dag_id || patch.dag_id === dagId} />
      <${Shown} of=${version}>
        ${({ spec }) => (spec.params ? html`<${Params} params=${spec.params} />` : null)}
      <//>
      <${TaskList} dagId=${dagId} />
      <${Shown} of=${version}>
        ${({ spec }) =>
          spec.doc_md ? html`
            <${Card} title="Documentation">
              <${Markdown} text=${spec.doc_md} />
            <//>
          ` : null
        }
      <//>
    </div>
  `;
}

/** @param {{ dagId: string }} props */
function Upcoming({ dagId }) {
  /** @type {Resource<Api["ComingList"]>} */
  const coming = useResource(at("dags", dagId, "next"), { n: 8 }, { kinds: ["dag"] });
  const empty = html`
    <${Empty} title="No upcoming runs">
      This DAG has no time-based schedule, or its end date has passed.
    <//>
  `;
  return html`
    <${Card} title="Upcoming runs" plain>
      <${Shown} of=${coming}>
        ${({ items }) => html`
          <${Table}
            caption="Upcoming runs"
            items=${items}
            keyOf=${(one) => one.run_after}
            columns=${COMING}
            empty=${empty}
          />
        `}
      <//>
    <//>
  `;
}

/** @type {Column<Api["Coming"]>[]} */
const COMING = [
  { head: "Run after", cell: (one) => html`<${When} at=${one.run_after} />` },
  { head: "Logical date", cell: (one) => html`<${When} at=${one.logical_date} />` },
  { head: "", cell: (one) => one.note && html`<${Tag} kind="warn">${one.note}<//>` },
];

/** @param {{ dagId: string }} props */
function TaskList({ dagId }) {
  /** @type {Resource<Api["Tasks"]>} */
  const tasks = useResource(at("dags", dagId, "tasks"), {}, { kinds: ["dag"] });
  return html`
    <${Card} title="Tasks" plain>
      <${Shown} of=${tasks}>
        ${({ items }) => html`
          <${Table}
            caption="Tasks"
            items=${items}
            keyOf=${(task) => task.task_id}
            columns=${TASKS}
            empty=${html`<${Empty} title="This DAG has no tasks" />`}
          />
        `}
      <//>
    <//>
  `;
}

/** @param {{ dagId: string }} props */
function Delete({ dagId }) {
  const [open, setOpen] = useState(false);
  return html`
    <button class="button small danger" onClick=${() => setOpen(true)}>
      Delete …
    </button>
    ${open && html`
      <${Confirm}
        title=${`Delete ${dagId}`}
        submitLabel="Delete"
        danger
        act=${() => remove(at("dags", dagId))}
        done=${`${dagId} and its history deleted.`}
        cli=${commandLine("dags delete", [dagId], "--yes")}
        onClose=${() => setOpen(false)}
        onDone=${() => go("/dags")}
      >
        <p>
          All its runs, task instances, versions and values are deleted permanently. If a file still defines
          the DAG, it reappears without its history.
        </p>
      <//>
    `}
  `;
}

/** @param {{ dag: Api["DagResource"], spec: Spec }} props */
const Settings = ({ dag, spec }) => html`
  <${Facts}
    rows=${[
      ["Schedule", html`<${Schedule} of=${dag.schedule} timezone=${dag.schedule_timezone} />`],
      ["Time zone", spec.timezone ?? "UTC"],
      ["Start date", spec.start_date && html`<${When} at=${spec.start_date} />`],
      ["End date", spec.end_date && html`<${When} at=${spec.end_date} />`],
      ["Catchup", spec.catchup ? "yes" : "no"],
      ["Max active runs", dag.max_active_runs],
      ["Max active tasks", dag.max_active_tasks],
      ["Run types", spec.allowed_run_types && `${spec.allowed_run_types.join(", ").replace("_", " ")} only`],
      ["Fail fast", spec.fail_fast ? "yes" : null],
      ["Run timeout", spec.dagrun_timeout && duration(spec.dagrun_timeout)],
      ["Owner", dag.owner],
      ["File", dag.file && html`<code>${dag.file}</code>`],
      [
        "Version",
        dag.version && html`
          <${Link} to=${`/dags/${encodeURIComponent(dag.dag_id)}?tab=code`}>${dag.version}<//>
        `,
      ],
      ["Last parsed", html`<${When} at=${dag.last_parsed_at} ago />`],
      ["Description", dag.description],
    ]}
  />
`;

/** @param {{ params: Record<string, Param> }} props */
const Params = ({ params }) => html`
  <${Card} title="Params" plain>
    <${Table} caption="Params" items=${Object.entries(params)} keyOf=${([name]) => name} columns=${PARAMS} />
  <//>
`;

/** @param {Param} param */
const defaultOf = ({ required, value }) =>
  required ? html`<span class="soft">required</span>` : html`<code>${JSON.stringify(value ?? null)}</code>`;

/** @type {Column<[name: string, param: Param]>[]} */
const PARAMS = [
  { head: "Name", cell: ([name]) => html`<b>${name}</b>` },
  { head: "Default", cell: ([, param]) => defaultOf(param) },
  { head: "Schema", cell: ([, param]) => html`<code>${JSON.stringify(param.json_schema ?? {})}</code>` },
  { head: "Description", cell: ([, param]) => param.description ?? "" },
];

/** @type {Column<Api["TaskDefinition"]>[]} */
const TASKS = [
  {
    head: "Task",
    cell: (task) => html`
      <b>${task.task_display_name ?? task.task_id}</b>
      ${task.task_display_name && html`
        ${" "}
        <code>${task.task_id}</code>
      `}${" "}
      ${task.is_mapped && html`<${Tag}>mapped<//>`} ${task.is_setup && html`<${Tag}>setup<//>`}${" "}
      ${task.is_teardown && html`<${Tag}>teardown<//>`}
    `,
  },
  { head: "Operator", cell: (task) => operatorWords(task.operator) },
  { head: "Upstream", cell: (task) => task.upstream.join(", ") },
  { head: "Trigger rule", cell: (task) => (task.trigger_rule === "all_success" ? "" : task.trigger_rule) },
  { head: "Retries", right: true, cell: (task) => task.retries },
  { head: "Pool", cell: (task) => `${task.pool}${task.pool_slots > 1 ? ` (${task.pool_slots})` : ""}` },
  { head: "Priority", right: true, cell: (task) => task.priority_weight },
];
