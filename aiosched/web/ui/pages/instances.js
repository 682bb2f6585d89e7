// Task instances of all DAGs: filtered or grouped, and actions on the selected ones.
import { html, useEffect } from "../lib/html.js";
import { runName, shownDag, shownTask, taskName } from "../lib/names.js";
import { useList, useResource } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { duration, secondsBetween } from "../lib/time.js";
import { Card, Empty, Link, Loading, Page, State, When } from "../parts/basics.js";
import { FilterBar } from "../parts/lists/bar.js";
import { INSTANCE_FIELDS, clearFilters, paramsOf } from "../parts/lists/fields.js";
import { chosenGroup, GroupBy, Groups } from "../parts/lists/groups.js";
import { useAsList } from "../parts/lists/next_failed.js";
import { SelectionBar, selectionColumn, useSelection } from "../parts/lists/selection.js";
import { ViewTabs } from "../parts/lists/tabs.js";
import { Table } from "../parts/table.js";

/** @typedef {Api["ListedInstance"]} Instance */

const MOST_PAGES = 200; // read by themselves until something is found

const SEARCH = { name: "task_id", words: "Search by task id", one: true };
const ALL = [SEARCH, ...INSTANCE_FIELDS];

/** @param {Instance} one */
const keyOf = (one) => `${one.dag_id} ${one.run_id} ${one.task_id} ${one.map_index}`;

/** @param {Instance} one */
const placeOf = (one) =>
  path("dags", one.dag_id, "runs", one.run_id, "tasks", one.task_id) +
  (one.map_index >= 0 ? `?map_index=${one.map_index}` : "");

/** @type {Column<Instance>[]} */
const COLUMNS = [
  { head: "State", width: 124, cell: (one) => html`<${State} name=${one.state} />` },
  {
    head: "DAG",
    cell: (one) => html`
      <${Link} to=${path("dags", one.dag_id)} class="cut" title=${one.dag_id}>
        ${shownDag(one)}
      <//>
    `,
  },
  {
    head: "Run",
    width: 150,
    cell: (one) => html`
      <${Link} to=${path("dags", one.dag_id, "runs", one.run_id)} class="cut" title=${one.run_id}>
        ${runName(one.run_id)}
      <//>
    `,
  },
  {
    head: "Task",
    stays: "left",
    cell: (one) => html`
      <${Link} to=${placeOf(one)} class="cut" title=${`${taskName(one)}: ${one.operator} in pool ${one.pool}`}>
        ${shownTask(one)}
      <//>
    `,
  },
  { head: "Run after ▾", label: "Run after", width: 120, cell: (one) => html`<${When} at=${one.run_after} ago />` },
  {
    head: "Duration",
    right: true,
    width: 92,
    cell: (one) => html`
      <span class="nowrap">
        ${one.start_date ? duration(secondsBetween(one.start_date, one.end_date)) : "–"}
      </span>
    `,
  },
  {
    head: "Error or reason",
    cell: ({ reason }) =>
      reason && html`
        <span class="cut" title=${reason}>
          ${reason}
        </span>
      `,
  },
];

/** @param {{ list: List<Instance> }} props */
function None({ list }) {
  if (list.more.value)
    return html`
      <div class="pad">
        <p class="soft">Nothing found yet, searching older runs …</p>
        <${Loading} lines=${2} />
      </div>
    `;
  return html`
    <${Empty} title="No task instances match these filters">
      <button class="button" onClick=${() => clearFilters(ALL)}>
        Clear filters
      </button>
    <//>
  `;
}

/**
 * Goes on by itself while nothing is found: one request looks at a part of the history only.
 * @param {List<Instance>} list
 */
function useFurther(list) {
  const isEmpty = !list.items.value.length && Boolean(list.more.value);
  useEffect(() => {
    if (isEmpty) list.next(MOST_PAGES);
  }, [isEmpty, list]);
}

export function Instances() {
  const group = chosenGroup();
  const params = paramsOf(ALL);
  /** @type {Resource<Api["FacetList"]>} */
  const facets = useResource("task-instance-facets", params);
  /** @type {List<Instance>} */
  const list = useList("task-instances", params, { kinds: ["run", "task"], limit: 50, delay: 1500 });
  useFurther(list);
  useAsList("task-instances", params);
  const items = list.items.value;
  const selection = useSelection(items, keyOf);
  const columns = [...selectionColumn(selection, items, keyOf), ...COLUMNS];
  const reload = () => {
    selection.clear();
    list.reload();
    facets.reload();
  };
  return html`
    <${Page} title="Task instances">
      <${ViewTabs} page="task-instances" />
      <${FilterBar}
        fields=${INSTANCE_FIELDS}
        facets="task-instance-facets"
        fixed=${paramsOf([SEARCH])}
        search=${SEARCH}
      >
        <${GroupBy} />
      <//>
      <p class="soft">Sorted by run after, newest first; then in the order of the DAG.</p>
      <${SelectionBar}
        count=${selection.chosen.length}
        all=${
          list.more.value &&
          selection.chosen.length === items.length &&
          (() => selection.all("task-instances", params))
        }
        noun="task instance"
        actions=${["clear", "mark", "note"]}
        body=${{
          tasks: selection.chosen.map(({ dag_id, run_id, task_id, map_index }) => ({
            dag_id,
            run_id,
            task_id,
            map_index,
          })),
        }}
        onDone=${reload}
      />
      ${group ? html`
        <${Groups} facets=${facets.data.value} by=${group} noun="Task instances" />
      ` : html`
        <${Card} plain>
          <${Table}
            columns=${columns}
            list=${list}
            keyOf=${keyOf}
            empty=${html`<${None} list=${list} />`}
            caption="Task instances, newest run after first"
          />
        <//>
      `}
    <//>
  `;
}
