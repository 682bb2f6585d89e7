// The graph tab of a DAG, with a run picker and a task search.
import { html, useMemo, useRef } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { Empty, Failure, Loading, State } from "../basics.js";
import { RunPicker } from "../dag/runs.js";
import { foldedGroups } from "../grid/folding.js";
import { useRunResource } from "../run_resource.js";
import { Graph } from "./graph.js";

/** @param {{ dagId: string }} props */
export function GraphTab({ dagId }) {
  const runId = query.value.run;
  const startedAt = useMemo(() => performance.now(), [dagId]);
  /** @type {import("../../lib/resources.js").Watch} */
  const ofDag = { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId };
  /** @type {Resource<Api["RunResource"]>} */
  const run = useResource(runId ? at("dags", dagId, "runs", runId) : null, {}, ofDag);
  const params = { run: runId, fold: [...foldedGroups()] };
  /** @type {Resource<Api["DagGraph"]>} */
  const graph = useRunResource(at("dags", dagId, "graph"), dagId, run.data.value, params);
  /** @type {Ref<Api["DagGraph"] | null>} */
  const latest = useRef(null); // keep the graph while a group is folding
  if (graph.data.value) latest.current = graph.data.value;
  const data = graph.data.value ?? latest.current;
  return html`
    <div class="stack">
      <div class="row">
        <${RunPicker} dagId=${dagId} none="No run (structure only)" />
        ${runId && html`<${CriticalPath} />`}
        ${run.data.value && html`<${State} name=${run.data.value.state} />`}
        ${data && html`<${Find} nodes=${data.nodes} />`}
      </div>
      ${graph.error.value && !graph.data.value ? html`
        <${Failure} error=${graph.error.value} retry=${graph.reload} />
      ` : !data ? html`
        <${Loading} lines=${8} />
      ` : data.nodes.length === 0 ? html`
        <${Empty} title="This DAG has no tasks">Add some to its file.<//>
      ` : html`
        <${Graph} dagId=${dagId} graph=${data} startedAt=${startedAt} />
      `}
    </div>
  `;
}

function CriticalPath() {
  return html`
    <label class="row soft">
      <input
        type="checkbox"
        checked=${query.value.critical === "1"}
        onChange=${(e) => setQuery({ critical: e.target.checked ? "1" : null })}
      />${" "}
      Critical path
    </label>
  `;
}

/**
 * Jump to a task by name.
 * @param {{ nodes: Api["GraphNode"][] }} props
 */
function Find({ nodes }) {
  /** @param {FieldEvent} event */
  const choose = (event) => {
    const found = nodes.find((node) => node.id === event.target.value);
    if (!found) return;
    setQuery({ task: found.id, goto: "1" });
    event.target.blur();
  };
  return html`
    <input
      class="input"
      type="search"
      list="graph-nodes"
      placeholder="Find a task"
      aria-label="Find a task"
      onInput=${choose}
    />
    <datalist id="graph-nodes">
      ${nodes.slice(0, 2000).map((node) => html`
        <option value=${node.id} />
      `)}
    </datalist>
  `;
}
