// A list of runs, of all DAGs or of one: filtered, sorted or grouped, and actions on the selected ones.
import { html } from "../../lib/html.js";
import { runName, shownDag } from "../../lib/names.js";
import { useList, useResource } from "../../lib/resources.js";
import { path, query } from "../../lib/router.js";
import { runTypeWords } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, State, Tag, When } from "../basics.js";
import { commandLine } from "../dialog.js";
import { Table } from "../table.js";
import { FilterBar } from "./bar.js";
import { RUN_FIELDS, clearFilters, isFiltered, paramsOf } from "./fields.js";
import { chosenGroup, GroupBy, Groups } from "./groups.js";
import { useAsList } from "./next_failed.js";
import { SelectionBar, selectionColumn, useSelection } from "./selection.js";
import { SortHead, orderWords } from "./sorted.js";

const SEARCH = { name: "search", words: "Search by run id", one: true };
const OF_ONE = RUN_FIELDS.filter(({ name }) => !["dag_id", "owner", "team", "tag"].includes(name));

/**
 * The duration of a run; it keeps counting while the run is running.
 * @param {Api["RunResource"]} run
 */
const took = (run) => (run.start_date ? duration(secondsBetween(run.start_date, run.end_date)) : "–");

/** @type {Column<Api["RunResource"]>} */
const OF_DAG_COLUMN = {
  head: "DAG",
  cell: (r) => html`
    <${Link} to=${path("dags", r.dag_id)} class="cut" title=${r.dag_id}>
      ${shownDag(r)}
    <//>
  `,
};
/** @type {Column<Api["RunResource"]>[]} */
const OF_ONE_DAG = [
  { head: "Logical date", width: 170, cell: (r) => html`<${When} at=${r.logical_date} />` },
  { head: "Version", right: true, width: 76, cell: (r) => r.version },
];

/**
 * @param {string} order
 * @param {boolean} isOfDag  all runs are of one DAG
 * @returns {Column<Api["RunResource"]>[]}
 */
const columnsOf = (order, isOfDag) => [
  { head: "State", width: 116, cell: (r) => html`<${State} name=${r.state} />` },
  ...(isOfDag ? [] : [OF_DAG_COLUMN]),
  {
    head: "Run",
    stays: "left",
    cell: (r) => html`
      <span class="row line">
        <${Link} to=${path("dags", r.dag_id, "runs", r.run_id)} class="clip" title=${r.run_id}>
          ${runName(r.run_id)}
        <//>
        ${r.note && html`
          <span class="note clip" title=${r.note}>
            ${r.note}
          </span>
        `}
      </span>
    `,
  },
  ...(isOfDag ? OF_ONE_DAG : []),
  { head: "Type", width: 124, cell: (r) => html`<${Tag}>${runTypeWords(r.run_type)}<//>` },
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

/** @param {{ dagId: string | undefined, fields: import("./fields.js").Field[] }} props */
const NoRuns = ({ dagId, fields }) =>
  isFiltered(fields) ? html`
    <${Empty} title="No runs match these filters">
      <button class="button" onClick=${() => clearFilters(fields)}>
        Clear filters
      </button>
    <//>
  ` : html`
    <${Empty} title="No runs yet" command=${commandLine("dags trigger", [dagId ?? "DAG"])}>
      Trigger one, or wait for the next run of a schedule.
    <//>
  `;

/** @param {{ dagId?: string }} props */
export function RunList({ dagId }) {
  const { order = "-run_after" } = query.value;
  const group = chosenGroup();
  const fields = dagId === undefined ? RUN_FIELDS : OF_ONE;
  const all = [SEARCH, ...fields];
  const params = { ...paramsOf(all), ...(dagId !== undefined && { dag_id: dagId }) };
  /** @type {Resource<Api["RunFacetList"]>} */
  const facets = useResource("run-facets", { ...params, order });
  /** @type {List<Api["RunResource"]>} */
  const list = useList(
    "runs",
    { ...params, order },
    { kinds: ["run"], concerns: (patch) => dagId === undefined || patch.dag_id === dagId, limit: 50 },
  );
  useAsList("runs", { ...params, order });
  const items = list.items.value;
  const selection = useSelection(items, (r) => String(r.key));
  const found = facets.data.value;
  const nameOf = (/** @type {Api["RunResource"]} */ r) => `${r.dag_id} ${r.run_id}`;
  const columns = [...selectionColumn(selection, items, nameOf), ...columnsOf(order, dagId !== undefined)];
  const reload = () => {
    selection.clear();
    list.reload();
    facets.reload();
  };
  return html`
    <div class="stack">
      <${FilterBar}
        fields=${fields}
        facets="run-facets"
        fixed=${{ ...paramsOf([SEARCH]), ...(dagId !== undefined && { dag_id: dagId }) }}
        search=${SEARCH}
      >
        <${GroupBy} />
      <//>
      <p class="soft" role="status">
        ${found && `${found.more ? "At least " : ""}${found.number} ${found.number === 1 ? "run" : "runs"}. `}
        ${orderWords(order)}.
      </p>
      <${SelectionBar}
        count=${selection.chosen.length}
        all=${
          list.more.value &&
          selection.chosen.length === items.length &&
          (() => selection.all("runs", { ...params, order }))
        }
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
            empty=${html`<${NoRuns} dagId=${dagId} fields=${all} />`}
            caption=${`Runs. ${orderWords(order)}`}
          />
        <//>
      `}
    </div>
  `;
}
