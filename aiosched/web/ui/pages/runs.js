// Runs of all DAGs: filtered, sorted or grouped, and actions on the selected ones.
import { html } from "../lib/html.js";
import { useList, useResource } from "../lib/resources.js";
import { path, query, setQuery } from "../lib/router.js";
import { RUN_TYPES, runTypeWords } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { Card, Empty, Link, Page, State, Tag, When } from "../parts/basics.js";
import { FilterField } from "../parts/facts.js";
import { DurationFilter, FacetFilters, TimeFilter, Views, periodOf } from "../parts/lists/filters.js";
import { chosenGroup, GroupBy, Groups } from "../parts/lists/groups.js";
import { SelectionBar, selectionColumn, useSelection } from "../parts/lists/selection.js";
import { SortHead, orderWords } from "../parts/lists/sorted.js";
import { Table } from "../parts/table.js";

/**
 * The duration of a run; it keeps counting while the run is running.
 * @param {Api["RunResource"]} run
 */
const took = (run) => (run.start_date ? duration(secondsBetween(run.start_date, run.end_date)) : "–");

/** @type {[string, string, string][]} */
const FACETS = [
  ["state", "State", "any state"],
  ["run_type", "Type", "any type"],
  ["owner", "Owner", "any owner"],
  ["tag", "Tag", "any tag"],
];

/** What the filters in the address mean to the API; the time filters by what the list is sorted by. */
function paramsOf() {
  const { state, run_type, dag_id, search, owner, tag, reason, longer, shorter, order } = query.value;
  const [since, until] = periodOf();
  const byEnd = (order ?? "").endsWith("end_date");
  const time = byEnd ? { ended_since: since, ended_until: until } : { since, until };
  return {
    state: state?.split(","),
    run_type,
    dag_id,
    search,
    owner,
    tag,
    reason,
    ...time,
    min_seconds: longer,
    max_seconds: shorter,
  };
}

/**
 * @param {string} order
 * @returns {Column<Api["RunResource"]>[]}
 */
const columnsOf = (order) => [
  { head: "State", width: 116, cell: (r) => html`<${State} name=${r.state} />` },
  {
    head: "DAG",
    cell: (r) => html`
      <${Link} to=${path("dags", r.dag_id)} class="cut" title=${r.dag_id}>
        ${r.dag_id}
      <//>
    `,
  },
  {
    head: "Run",
    stays: "left",
    cell: (r) => html`
      <span class="row line">
        <${Link} to=${path("dags", r.dag_id, "runs", r.run_id)} class="mono clip" title=${r.run_id}>
          ${r.run_id}
        <//>
        ${r.note && html`
          <span class="note clip" title=${r.note}>
            ${r.note}
          </span>
        `}
      </span>
    `,
  },
  { head: "Type", width: 108, cell: (r) => html`<${Tag}>${runTypeWords(r.run_type)}<//>` },
  {
    head: html`<${SortHead} name="run_after" words="Run after" order=${order} />`,
    label: "Run after",
    width: 124,
    cell: (r) => html`<${When} at=${r.run_after} ago />`,
  },
  {
    head: html`<${SortHead} name="end_date" words="Ended" order=${order} />`,
    label: "Ended",
    width: 124,
    cell: (r) => html`<${When} at=${r.end_date} ago />`,
  },
  { head: "Duration", right: true, width: 100, cell: (r) => html`<span class="nowrap">${took(r)}</span>` },
];

/** @param {{ facets: import("../parts/lists/filters.js").FacetData }} props */
const Filters = ({ facets }) => html`
  <div class="row filters">
    <${FilterField} name="dag_id" words="DAG id" />
    <${FilterField} name="search" words="Search by run id" />
    <${FacetFilters}
      facets=${facets}
      fields=${FACETS}
      words=${(/** @type {string} */ value) => (RUN_TYPES.includes(value) ? runTypeWords(value) : value)}
    />
    <${TimeFilter} />
    <${DurationFilter} />
    <${GroupBy} />
  </div>
`;

/** @param {{ filtered: boolean }} props */
const NoRuns = ({ filtered }) =>
  filtered ? html`
    <${Empty} title="No runs match these filters">
      <button class="button" onClick=${() => setQuery(NO_FILTERS)}>
        Clear filters
      </button>
    <//>
  ` : html`
    <${Empty} title="No runs yet" command="aiosched dags trigger DAG">
      Unpause a DAG with a schedule, or trigger one.
    <//>
  `;

const NAMES = "state run_type dag_id search owner tag reason time from to longer shorter order group".split(
  " ",
);
const NO_FILTERS = Object.fromEntries(NAMES.map((name) => [name, null]));

export function Runs() {
  const { order = "-run_after" } = query.value;
  const group = chosenGroup();
  const params = paramsOf();
  /** @type {Resource<Api["RunFacetList"]>} */
  const facets = useResource("run-facets", { ...params, order });
  /** @type {List<Api["RunResource"]>} */
  const list = useList("runs", { ...params, order }, { kinds: ["run"], limit: 50 });
  const items = list.items.value;
  const selection = useSelection(items, (r) => String(r.key));
  const found = facets.data.value;
  const columns = [...selectionColumn(selection, items, (r) => `${r.dag_id} ${r.run_id}`), ...columnsOf(order)];
  const reload = () => {
    selection.clear();
    list.reload();
    facets.reload();
  };
  return html`
    <${Page} title="Runs" actions=${html`<${Views} page="runs" />`}>
      <${Filters} facets=${found} />
      <p class="soft" role="status">
        ${found && `${found.more ? "At least " : ""}${found.number} ${found.number === 1 ? "run" : "runs"}. `}
        ${orderWords(order)}.
      </p>
      <${SelectionBar}
        count=${selection.chosen.length}
        noun="run"
        actions=${["clear", "mark", "note", "cancel"]}
        body=${{ runs: selection.chosen.map((r) => ({ dag_id: r.dag_id, run_id: r.run_id })) }}
        onDone=${reload}
      />
      ${group ? html`
        <${Groups} facets=${found} by=${group} noun="Runs" />
      ` : html`
        <${Card} plain>
          <${Table}
            columns=${columns}
            list=${list}
            keyOf=${(/** @type {Api["RunResource"]} */ r) => r.key}
            empty=${html`<${NoRuns} filtered=${NAMES.some((name) => query.value[name])} />`}
            caption=${`Runs. ${orderWords(order)}`}
          />
        <//>
      `}
    <//>
  `;
}
