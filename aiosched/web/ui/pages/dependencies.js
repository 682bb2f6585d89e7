// Dependencies: DAGs and assets of all DAGs in one graph, with their states; as a list, too.
import { html } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";
import { Card, Empty, Notice, Page, Shown, Tabs } from "../parts/basics.js";
import { DependencyDrawing } from "../parts/dependencies/drawing.js";
import { DependencyList } from "../parts/dependencies/list.js";
import { FilterField } from "../parts/facts.js";
import { Filter } from "../parts/form.js";

const NARROW = matchMedia("(max-width: 600px)");

/** @type {[string, string][]} */
const TABS = [
  ["graph", "Graph"],
  ["list", "List"],
];

/** @type {Choice[]} */
const DIRECTIONS = [
  ["upstream", "Only upstream"],
  ["downstream", "Only downstream"],
];

export function Dependencies() {
  const { search, around, direction } = query.value;
  const tabs = NARROW.matches ? [...TABS].reverse() : TABS;
  const tab = query.value.tab || tabs[0][0];
  /** @type {Resource<Api["DependencyGraph"]>} */
  const found = useResource(
    "dependencies",
    { search: around ? undefined : search, around, direction: around && direction },
    { kinds: ["asset", "dag", "run"] },
  );
  return html`
    <${Page}
      title="Dependencies"
      lead="What each DAG needs: assets, runs that it waits for, DAGs that trigger it."
    >
      <${Tabs} tabs=${tabs} keep=${["search", "around", "direction"]} />
      <div class="stack">
        <${Controls} nodes=${found.data.value?.nodes ?? []} />
        <${Shown} of=${found}>
          ${(/** @type {Api["DependencyGraph"]} */ graph) => html`<${Answer} graph=${graph} tab=${tab} />`}
        <//>
      </div>
    <//>
  `;
}

/** @param {{ graph: Api["DependencyGraph"], tab: string }} props */
function Answer({ graph, tab }) {
  const { search, around } = query.value;
  if (!graph.edges.length)
    return html`
      <${Empty} title=${search || around ? "No dependencies match" : "No dependencies"}>
        DAGs depend on each other by assets, TriggerDagRunOperator and ExternalTaskSensor.
      <//>
    `;
  return html`
    ${!graph.is_complete && html`
      <${Notice}>
        The first ${graph.edges.length} dependencies are shown. Search, or choose a DAG or an asset, to see
        others.
      <//>
    `}
    ${tab === "list" ? html`
      <${DependencyList} graph=${graph} />
    ` : html`
      <${Card} title="Graph">
        <${DependencyDrawing} graph=${graph} marked=${around} label="Dependencies" />
      <//>
    `}
  `;
}

/** @param {{ nodes: Api["DependencyItem"][] }} props */
function Controls({ nodes }) {
  const { around, direction } = query.value;
  const known = nodes.filter((node) => node.kind !== "unknown").map((node) => node.id);
  const ids = around && !known.includes(around) ? [around, ...known] : known;
  return html`
    <div class="row filters">
      ${!around && html`<${FilterField} name="search" words="Search DAGs and assets" />`}
      <${Filter}
        label="Upstream and downstream of"
        value=${around}
        any="Only around …"
        options=${ids.sort().map((id) => [id, id.replace(":", " ")])}
        onText=${(/** @type {string} */ text) => setQuery({ around: text, direction: null })}
      />
      ${around && html`
        <${Filter}
          label="Direction"
          value=${direction}
          any="Both directions"
          options=${DIRECTIONS}
          onText=${(/** @type {string} */ text) => setQuery({ direction: text })}
        />
        <button class="button small" onClick=${() => setQuery({ around: null, direction: null })}>
          Show all
        </button>
      `}
    </div>
  `;
}
