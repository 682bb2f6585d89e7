// The Gantt tab of a DAG.
import { html } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { path, query } from "../../lib/router.js";
import { Empty, Failure, Link, Loading, Notice, State } from "../basics.js";
import { commandLine } from "../dialog.js";
import { RunPicker } from "../dag/runs.js";
import { useRunResource } from "../run_resource.js";
import { Chart } from "./chart.js";

/** @param {{ dagId: string }} props */
export function GanttTab({ dagId }) {
  const runId = query.value.run || "latest";
  /** @type {Resource<Api["RunResource"]>} */
  const run = useResource(
    at("dags", dagId, "runs", runId),
    {},
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  const facts = run.data.value;
  /** @type {Resource<Api["Gantt"]>} */
  const gantt = useRunResource(facts ? at("dags", dagId, "runs", facts.run_id, "gantt") : null, dagId, facts);
  const failed = run.error.value ?? gantt.error.value;
  return html`
    <div class="stack">
      <div class="row">
        <${RunPicker} dagId=${dagId} none="latest" />
        ${facts && html`
          <${State} name=${facts.state} />
          <${Link} to=${path("dags", dagId, "runs", facts.run_id)}>${facts.run_id}<//>
        `}
      </div>
      ${failed?.status === 404 ? html`
        <${Empty} title="No runs yet" command=${commandLine("dags trigger", [dagId])}>
          The Gantt chart appears here once there is a run.
        <//>
      ` : failed && !gantt.data.value ? html`
        <${Failure} error=${failed} retry=${run.reload} />
      ` : !gantt.data.value ? html`
        <${Loading} lines=${8} />
      ` : html`
        ${!gantt.data.value.complete && html`
          <${Notice} kind="warn">This run has more tries than shown here.<//>
        `}
        <${Chart} dagId=${dagId} run=${facts} gantt=${gantt.data.value} />
      `}
    </div>
  `;
}
