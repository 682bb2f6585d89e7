// The instances of a mapped task, shown when the URL has no map index: filtered by state, in a chosen order.
import { html, useState } from "../../lib/html.js";
import { at, may } from "../../lib/api.js";
import { useKey } from "../../lib/keys.js";
import { counted, shownTask, taskPath } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { path, query, setQuery } from "../../lib/router.js";
import { byState } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { ClearDialog } from "../../parts/actions/clear.js";
import { MarkDialog } from "../../parts/actions/mark.js";
import { Card, Empty, Link, Page, State, When } from "../../parts/basics.js";
import { Allowed } from "../../parts/facts.js";
import { Filter } from "../../parts/form.js";
import { IdOf } from "../../parts/copy.js";
import { FilterBar } from "../../parts/lists/bar.js";
import { INSTANCE_STATES } from "../../parts/lists/fields.js";
import { Table } from "../../parts/table.js";

/** @typedef {Api["TaskInstanceResource"]} Instance */

/**
 * @param {string} dag
 * @param {string} run
 * @param {string | null} [name]  shown in place of the id of the DAG
 * @returns {[string, string][]}
 */
export const crumbsOf = (dag, run, name) => [
  ["DAGs", "/dags"],
  [name ?? dag, path("dags", dag)],
  [run, path("dags", dag, "runs", run)],
];

/** @param {Instance} one */
const secondsOf = (one) => secondsBetween(one.start_date, one.end_date) ?? -1;

/** @type {Record<string, (one: Instance, other: Instance) => number>} */
const ORDERS = {
  index: (one, other) => one.map_index - other.map_index,
  duration: (one, other) => secondsOf(other) - secondsOf(one),
  state: (one, other) => place(one) - place(other) || one.map_index - other.map_index,
  label: (one, other) => (one.map_label ?? "").localeCompare(other.map_label ?? ""),
};

const BY_URGENCY = ["failed", "up_for_retry", "running", "queued", "scheduled", "deferred", "none", "success"];

/** @param {Instance} one */
const place = ({ state }) => (BY_URGENCY.includes(state) ? BY_URGENCY.indexOf(state) : BY_URGENCY.length);

/** @type {Choice[]} */
const ORDER_WORDS = [
  ["state", "by state"],
  ["duration", "longest first"],
  ["label", "by label"],
];

/** @type {import("../../parts/lists/fields.js").Field[]} */
const FIELDS = [{ name: "state", words: "State", one: true, options: INSTANCE_STATES }];

/**
 * @param {{ dag: string, run: string, task: string, list: List<Instance> }} props
 */
export function Instances({ dag, run, task, list }) {
  const { state, sort = "index" } = query.value;
  const items = list.items.value.toSorted(ORDERS[sort] ?? ORDERS.index);
  const loading = list.loading.value && !items.length;
  const empty = state ? html`
    <${Empty} title="No instances in this state">Clear the filter to see all.<//>
  ` : html`
    <${Empty} title=${`The run has no instances of ${task}`}>
      The task may have a different name, or what it maps over is not known yet.
    <//>
  `;
  const base = at("dags", dag, "runs", run);
  /** @type {Resource<Api["RunDetails"]>} */
  const facts = useResource(base, {}, { kinds: ["task"] });
  const counts = facts.data.value?.mapped[task] ?? {};
  const [open, setOpen] = useState("");
  const handlers = { onClose: () => setOpen(""), onDone: list.reload };
  const name = items[0]?.task_display_name ?? null;
  return html`
    <${Page}
      title=${name ?? task}
      crumbs=${crumbsOf(dag, run, facts.data.value?.dag_display_name)}
      lead=${
        (items.length > 0 || state) && html`
          <${IdOf} id=${task} name=${name} />
          <${Counts} counts=${counts} />
        `
      }
      actions=${items.length > 0 && html`<${Actions} failed=${counts.failed ?? 0} setOpen=${setOpen} />`}
    >
      ${(open === "rerun" || open === "clear") && html`
        <${ClearDialog}
          dagId=${dag}
          selection=${{ run_ids: [run], task_ids: [task] }}
          options=${{ only_failed: open === "rerun" }}
          ...${handlers}
        />
      `}
      ${open === "mark" && html`<${MarkDialog} dagId=${dag} runId=${run} taskId=${task} ...${handlers} />`}
      <${Filters} sort=${sort} partial=${Boolean(list.more.value)} count=${items.length} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(
            dag,
            run,
            items.some((one) => one.map_label),
          )}
          list=${list}
          items=${loading || list.error.value ? undefined : items}
          keyOf=${(/** @type {Instance} */ t) => t.map_index}
          empty=${empty}
          caption="Instances"
        />
      <//>
    <//>
  `;
}

/** How many of all instances are in each state. @param {{ counts: Record<string, number> }} props */
function Counts({ counts }) {
  const all = Object.values(counts).reduce((sum, number) => sum + number, 0);
  return html`
    <span>a mapped task with ${counted(all, "instance")} in this run</span>
    ${byState(counts).map(([name, number]) => html`
      <${State} key=${name} name=${name} count=${number} />
    `)}
  `;
}

/**
 * What is done with all instances, loaded or not.
 * @param {{ failed: number, setOpen: (action: string) => void }} props
 */
function Actions({ failed, setOpen }) {
  useKey("r", "rerun what failed", () => failed > 0 && may("operator") && setOpen("rerun"));
  return html`
    <${Allowed}>
      ${failed > 0 && html`
        <button class="button primary" aria-keyshortcuts="r" onClick=${() => setOpen("rerun")}>
          Rerun failed (${failed})
        </button>
      `}
      <button class="button" onClick=${() => setOpen("clear")}>
        Clear all …
      </button>
      <button class="button" onClick=${() => setOpen("mark")}>
        Mark all …
      </button>
    <//>
  `;
}

/** @param {{ sort: string, partial: boolean, count: number }} props */
const Filters = ({ sort, partial, count }) => html`
  <${FilterBar} fields=${FIELDS}>
    <${Filter}
      label="Order"
      value=${sort === "index" ? "" : sort}
      any="by index"
      options=${ORDER_WORDS}
      onText=${(/** @type {string} */ text) => setQuery({ sort: text })}
    />
    ${partial && sort !== "index" && html`<span class="faint">in order among the first ${count}</span>`}
  <//>
`;

/**
 * @param {string} dag
 * @param {string} run
 * @param {boolean} labelled whether an instance has a label
 * @returns {Column<Instance>[]}
 */
const columnsOf = (dag, run, labelled) => [
  {
    head: "Instance",
    cell: (t) => html`<${Link} to=${taskPath({ ...t, dag_id: dag, run_id: run })}>${shownTask(t)}<//>`,
  },
  .../** @type {Column<Instance>[]} */ (labelled ? [{ head: "Label", cell: (t) => t.map_label ?? "" }] : []),
  { head: "State", cell: (t) => html`<${State} name=${t.state} />` },
  { head: "Try", right: true, cell: (t) => t.try_number || "–" },
  { head: "Started", cell: (t) => html`<${When} at=${t.start_date} ago />` },
  {
    head: "Duration",
    right: true,
    cell: (t) => (t.start_date ? duration(secondsBetween(t.start_date, t.end_date)) : "–"),
  },
  {
    head: "Reason",
    cell: (t) => html`
      <span class="faint clip reason" title=${t.reason ?? ""}>
        ${t.reason}
      </span>
    `,
  },
];
