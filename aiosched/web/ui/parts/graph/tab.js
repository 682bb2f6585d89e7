// The graph of a DAG, with a run picker and a task search; and the graph of one run.
import { html, useMemo, useRef } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { labelAndId } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { Empty, Failure, Loading, State } from "../basics.js";
import { RunSelect, useLatestRuns } from "../dag/runs.js";
import { useRunResource } from "../run_resource.js";
import { Graph } from "./graph.js";
import { useReadable } from "./readable.js";

const NO_RUN = "-"; // in the query string: only the structure

/** @param {{ dagId: string }} props */
export function GraphTab({ dagId }) {
  const runs = useLatestRuns(dagId);
  const wanted = query.value.run;
  const newest = runs?.find((run) => run.run_type !== "backfill") ?? runs?.[0];
  const runId = wanted === NO_RUN ? undefined : (wanted ?? newest?.run_id);
  /** @type {import("../../lib/resources.js").Watch} */
  const ofDag = { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId };
  /** @type {Resource<Api["RunResource"]>} */
  const run = useResource(runId ? at("dags", dagId, "runs", runId) : null, {}, ofDag);
  if (runs === null && wanted === undefined) return html`<${Loading} lines=${8} />`;
  const picker = html`
    <${RunSelect}
      runs=${runs ?? []}
      none="No run (structure only)"
      chosen=${runId}
      onChoose=${(chosen) => setQuery({ run: chosen || NO_RUN })}
    />
  `;
  return html`<${View} dagId=${dagId} runId=${runId} run=${run.data.value} picker=${picker} />`;
}

/** @param {{ dagId: string, run: Api["RunResource"] }} props */
export const RunGraph = ({ dagId, run }) => html`<${View} dagId=${dagId} runId=${run.run_id} run=${run} />`;

/** @param {{ dagId: string, runId: string | undefined, run: Api["RunResource"] | null, picker?: Content }} props */
function View({ dagId, runId, run, picker }) {
  const startedAt = useMemo(() => performance.now(), [dagId]);
  const readable = useReadable();
  const neighbours = query.value.neighbours === "1" || undefined;
  const params = { run: runId, fold: readable.folded, neighbours };
  /** @type {Resource<Api["DagGraph"]>} */
  const graph = useRunResource(at("dags", dagId, "graph"), dagId, run, params);
  /** @type {Ref<Api["DagGraph"] | null>} */
  const latest = useRef(null); // keep the graph while a group is folding
  if (graph.data.value) latest.current = graph.data.value;
  const data = graph.data.value ?? latest.current;
  readable.useCheck(graph.data.value);
  return html`
    <div class="stack">
      <div class="row">
        ${picker} ${runId && html`<${Switch} name="critical" words="Critical path" />`}
        <${Switch} name="neighbours" words="Assets and other DAGs" /> ${run && html`<${State} name=${run.state} />`}
        ${data && html`<${Find} nodes=${data.nodes} />`}
        ${readable.automatic > 0 && html`<${Folded} readable=${readable} />`}
      </div>
      <div ref=${readable.box}>
        ${graph.error.value && !graph.data.value ? html`
          <${Failure} error=${graph.error.value} retry=${graph.reload} />
        ` : !data || !readable.settled ? html`
          <${Loading} lines=${8} />
        ` : data.nodes.length === 0 ? html`
          <${Empty} title="This DAG has no tasks">Add some to its file.<//>
        ` : html`
          <${Graph} dagId=${dagId} graph=${data} startedAt=${startedAt} runId=${runId} />
        `}
      </div>
    </div>
  `;
}

/** @param {{ readable: import("./readable.js").Readable }} props */
const Folded = ({ readable }) => html`
  <span class="faint">
    ${readable.automatic} ${readable.automatic === 1 ? "group is" : "groups are"} folded, so that the text can
    be read.
  </span>
  <button class="button small" onClick=${readable.unfold}>
    Unfold all
  </button>
`;

/** @param {{ name: string, words: string }} props */
const Switch = ({ name, words }) => html`
  <label class="row soft">
    <input
      type="checkbox"
      checked=${query.value[name] === "1"}
      onChange=${(/** @type {FieldEvent} */ e) =>
        setQuery({ [name]: /** @type {any} */ (e.target).checked ? "1" : null })
      }
    />${" "}
    ${words}
  </label>
`;

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
        <option value=${node.id} label=${labelAndId(node).length > 1 ? node.label : undefined} />
      `)}
    </datalist>
  `;
}
