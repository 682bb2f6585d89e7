// All DAGs: pause switch, owner, schedule, the last runs as bars, statistics, the next run; actions on selected ones.
import { html, useState } from "../lib/html.js";
import { may } from "../lib/api.js";
import { useList, useResource } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";
import { TriggerDialog } from "../parts/actions/trigger.js";
import { Card, Empty, Page } from "../parts/basics.js";
import { Table } from "../parts/table.js";
import { BulkBar } from "./dags/bulk.js";
import { columnsOf } from "./dags/columns.js";
import { favourites } from "./dags/favourites.js";
import { Filters, filtersOf, isFiltered, noFilters } from "./dags/filters.js";
import { useStatistics } from "./dags/statistics.js";

export function Dags() {
  const filters = filtersOf(query.value);
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
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const dags = list.items.value;
  const chosen = dags.filter((dag) => selected.has(dag.dag_id));
  const selection = may("operator") ? { dags, selected, setSelected } : null;
  const columns = columnsOf(statistics, selection, { reload: list.reload, trigger: setTriggering });
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
      <${Filters} owners=${counts.data.value?.owners ?? []} />
      <${BulkBar}
        dags=${chosen}
        onDone=${() => {
          setSelected(new Set());
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
  if (isFiltered(query.value))
    return html`
      <${Empty} title="No matching DAGs">
        <button class="button" onClick=${() => setQuery(noFilters)}>
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
