// All DAGs: pause switch, owner, schedule, the last runs as bars, statistics, the next run; actions on selected ones.
import { html, useRef, useState } from "../lib/html.js";
import { me } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { useList, useResource } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";
import { TriggerDialog } from "../parts/actions/trigger.js";
import { Card, Empty, Page } from "../parts/basics.js";
import { FilterBar } from "../parts/lists/bar.js";
import { DAG_FIELDS, clearFilters, isFiltered, paramsOf } from "../parts/lists/fields.js";
import { selectionColumn, useSelection } from "../parts/lists/selection.js";
import { ViewTabs } from "../parts/lists/tabs.js";
import { Table } from "../parts/table.js";
import { BulkBar } from "./dags/bulk.js";
import { columnsOf } from "./dags/columns.js";
import { favourites } from "./dags/favourites.js";
import { useStatistics } from "./dags/statistics.js";

const SEARCH = { name: "q", words: "Search DAGs ( / )", one: true };

/** The views that everybody has: the DAGs of one's teams, or those that one owns, and the favourites. */
function viewsOfUser() {
  const teams = (me.value?.grants ?? []).flatMap((grant) => grant.split("@team:")[1] ?? []);
  const mine = teams.length ? teams.map((team) => ["team", team]) : [["owner", me.value?.name ?? ""]];
  return [
    { name: "My DAGs", query: new URLSearchParams(mine).toString() },
    { name: "Favourites", query: "favourites=1" },
  ];
}

export function Dags() {
  const { q, favourites: only } = query.value;
  const filters = { ...paramsOf(DAG_FIELDS), search: q, dag_id: only ? favourites.value : null };
  /** @type {Ref<HTMLInputElement | null>} */
  const field = useRef(null);
  useKey("/", "search DAGs", () => field.current?.focus());
  const none = query.value.favourites && !favourites.value.length; // no ids would mean all DAGs
  const { order } = query.value;
  /** @type {List<Api["DagResource"]>} */
  const list = useList(
    none ? null : "dags",
    { ...filters, order },
    { kinds: ["dag", "run"], limit: 50, delay: 1500 },
  );
  /** @type {Resource<Api["DagCounts"]>} */
  const counts = useResource(none ? null : "dag-counts", filters, { kinds: ["dag"] });
  const statistics = useStatistics(list.items.value.map((dag) => dag.dag_id));
  const [triggering, setTriggering] = useState(/** @type {string | null} */ (null));
  const dags = list.items.value;
  const selection = useSelection(dags, (dag) => dag.dag_id);
  const columns = columnsOf(
    statistics,
    selectionColumn(selection, dags, (dag) => dag.dag_id),
    { reload: list.reload, trigger: setTriggering },
  );
  const shown = counts.data.value && `${dags.length} of ${counts.data.value.number}`;
  return html`
    <${Page}
      title="DAGs"
      actions=${
        html`<span class="soft tabular" role="status">
          ${shown}
        </span>`
      }
    >
      <${ViewTabs} page="dags" views=${viewsOfUser()} />
      <${FilterBar}
        fields=${DAG_FIELDS}
        facets="dag-facets"
        fixed=${{ search: q }}
        search=${{ ...SEARCH, field }}
      />
      <${BulkBar}
        dags=${selection.chosen}
        onDone=${() => {
          selection.clear();
          list.reload();
        }}
      />
      <${Card} plain class="card dags">
        <${Table}
          columns=${columns}
          list=${none ? undefined : list}
          items=${none ? [] : undefined}
          keyOf=${(d) => d.dag_id}
          empty=${html`<${NoDag} />`}
          caption="DAGs"
        />
      <//>
      ${triggering && html`
        <${TriggerDialog}
          dagId=${triggering}
          onClose=${() => setTriggering(null)}
          onDone=${() => list.reload()}
        />
      `}
    <//>
  `;
}

function NoDag() {
  const clear = () => (setQuery({ favourites: null }), clearFilters([SEARCH, ...DAG_FIELDS]));
  if (isFiltered([SEARCH, ...DAG_FIELDS]) || query.value.favourites)
    return html`
      <${Empty} title="No matching DAGs">
        <button class="button" onClick=${clear}>
          Clear filters
        </button>
      <//>
    `;
  return html`
    <${Empty} title="No DAGs yet" command="aiosched init demo">
      Put a DAG file into the DAGs folder: it appears here once parsed.
    <//>
  `;
}
