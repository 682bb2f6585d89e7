// The tab with the graph of a DAG: the run whose states it shows, and a field that finds a task.
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
  const begun = useMemo(() => performance.now(), [dagId]);
  const ofDag = { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId };
  const run = useResource(runId ? at("dags", dagId, "runs", runId) : null, {}, ofDag);
  const wish = { run: runId, fold: [...foldedGroups()] };
  const graph = useRunResource(at("dags", dagId, "graph"), dagId, run.data.value, wish);
  const kept = useRef(null); // the picture stays while a group folds
  if (graph.data.value) kept.current = graph.data.value;
  const data = graph.data.value ?? kept.current;
  return html`
    <div class="stack">
      <div class="row">
        <${RunPicker} dagId=${dagId} none="none: only the shape" />
        ${runId && html`<${CriticalPath} />`}
        ${run.data.value && html`<${State} name=${run.data.value.state} />`}
        ${data && html`<${Find} nodes=${data.nodes} />`}
      </div>
      ${graph.error.value && !graph.data.value ? html`
        <${Failure} error=${graph.error.value} retry=${graph.reload} />
      ` : !data ? html`
        <${Loading} lines=${8} />
      ` : data.nodes.length === 0 ? html`
        <${Empty} title="This DAG has no task">Add one to its file.<//>
      ` : html`
        <${Graph} dagId=${dagId} graph=${data} begun=${begun} />
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
