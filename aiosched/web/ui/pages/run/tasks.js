// The task instances of a run; instances of a mapped task are folded.
import { html } from "../../lib/html.js";
import { operatorWords, shownTask, taskName, taskPath } from "../../lib/names.js";
import { useList } from "../../lib/resources.js";
import { path, query, setQuery } from "../../lib/router.js";
import { byState } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, State, Tag, When } from "../../parts/basics.js";
import { Choices } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";

const FOLD = 3; // more instances of a mapped task are folded

/**
 * A row of several instances of a mapped task, and whether they follow it; `counts` are those of all, loaded or not.
 * @typedef {{ group: Api["TaskInstanceResource"][], counts: Record<string, number>, task_id: string,
 *   open: boolean }} Folded
 *
 * @typedef {Folded | (Api["TaskInstanceResource"] & { group?: undefined })} Row
 */

/**
 * Table rows: single instances, and one row per folded mapped task, followed by its instances when open.
 * @param {Api["TaskInstanceResource"][]} items
 * @param {string | undefined} open
 * @param {(task: string, group: Api["TaskInstanceResource"][]) => Record<string, number>} countsOf
 */
function rowsOf(items, open, countsOf) {
  /** @type {Row[]} */
  const rows = [];
  for (let i = 0; i < items.length;) {
    let end = i + 1;
    while (end < items.length && items[end].task_id === items[i].task_id) end++;
    const group = items.slice(i, end);
    const { task_id, map_index } = items[i];
    const folded = map_index >= 0 && group.length > FOLD;
    if (folded) rows.push({ group, counts: countsOf(task_id, group), task_id, open: open === task_id });
    if (!folded || open === task_id) rows.push(...group);
    i = end;
  }
  return rows;
}

/** @param {Api["TaskInstanceResource"][]} items */
const count = (items) =>
  items.reduce(
    (counts, { state }) => ({ ...counts, [state || "none"]: (counts[state || "none"] || 0) + 1 }),
    /** @type {Record<string, number>} */ ({}),
  );

/** @param {{ run: Api["RunDetails"], base: string }} props */
export function Tasks({ run, base }) {
  const { state, open } = query.value;
  /** @param {Patch} p */
  const concerns = (p) => p.run === run.key;
  /** @type {List<Api["TaskInstanceResource"]>} */
  const list = useList(`${base}/tasks`, { state }, { kinds: ["task"], concerns, limit: 200 });
  const states = byState(run.tasks).map(([s, n]) => [s, html`<${State} name=${s} count=${n} />`]);
  const empty = html`
    <${Empty} title=${state ? "No task instances in this state" : "The run has no task instances yet"}>
      ${state ? "Clear the filter to see all." : "They are created when the run starts."}
    <//>
  `;
  /** @type {(task: string, group: Api["TaskInstanceResource"][]) => Record<string, number>} */
  const countsOf = (task, group) => {
    const all = run.mapped[task] ?? count(group);
    return state ? { [state]: all[state] ?? group.length } : all;
  };
  const loading = list.loading.value && !list.items.value.length;
  return html`
    <div class="stack tight">
      <${Choices} name="state" label="State" options=${states} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(run, open)}
          list=${list}
          items=${loading ? undefined : rowsOf(list.items.value, open, countsOf)}
          keyOf=${(t) => (t.group ? `+${t.task_id}` : `${t.task_id} ${t.map_index}`)}
          empty=${list.error.value ? undefined : empty}
          caption="Task instances"
        />
      <//>
    </div>
  `;
}

/**
 * The columns. A row is a task instance, or `{group}` with the instances of a mapped task.
 * @param {Api["RunDetails"]} run
 * @param {string | undefined} open
 * @returns {Column<Row>[]}
 */
const columnsOf = (run, open) => [
  { head: "Task", cell: (t) => html`<${Task} row=${t} run=${run} open=${open} />` },
  { head: "State", cell: (t) => html`<${States} row=${t} />` },
  { head: "Try", right: true, cell: (t) => (t.group ? "" : html`<${Tries} task=${t} />`) },
  { head: "Started", cell: (t) => (t.group ? "" : html`<${When} at=${t.start_date} ago />`) },
  {
    head: "Duration",
    right: true,
    cell: (t) =>
      t.group || !t.start_date ? (
        ""
      ) : html`
        <span class="nowrap">${duration(secondsBetween(t.start_date, t.end_date))}</span>
      `,
  },
  { head: "Operator", cell: (t) => (t.group ? "" : html`<span class="soft">${operatorWords(t.operator)}</span>`) },
  {
    head: "Pool",
    cell: (t) => (t.group ? "" : html`<${Link} to=${`/pools?pool=${encodeURIComponent(t.pool)}`}>${t.pool}<//>`),
  },
  { head: "Reason", cell: (t) => (t.group ? "" : html`<${Reason} task=${t} />`) },
];

/** @param {{ row: Row, run: Api["RunDetails"], open: string | undefined }} props */
function Task({ row, run, open }) {
  return row.group ? html`<${Fold} row=${row} run=${run} />` : html`<${Name} task=${row} run=${run} open=${open} />`;
}

/** @param {{ row: Folded, run: Api["RunDetails"] }} props */
function Fold({ row, run }) {
  const all = Object.values(row.counts).reduce((sum, n) => sum + n, 0);
  return html`
    <button
      class="button quiet small fold"
      aria-expanded=${row.open}
      title=${row.task_id}
      onClick=${() => setQuery({ open: row.open ? null : row.task_id })}
    >
      ${row.open ? "▾" : "▸"} ${row.group[0].task_display_name ?? row.task_id}${" "}
      <span class="faint">[${all}]</span>
    </button>
    <${Link}
      to=${path("dags", run.dag_id, "runs", run.run_id, "tasks", row.task_id)}
      aria-label=${`All ${all} instances of ${row.task_id}`}
    >
      all instances
    <//>
  `;
}

/** @param {{ task: Api["TaskInstanceResource"], run: Api["RunDetails"], open: string | undefined }} props */
function Name({ task, run, open }) {
  const to = taskPath({ ...task, dag_id: run.dag_id, run_id: run.run_id });
  return html`
    <${Link} to=${to} class=${open === task.task_id ? "inner" : ""} title=${taskName(task)}>
      ${shownTask(task)}
    <//>
    ${task.map_label && html`
      ${" "}
      <${Tag}>${task.map_label}<//>
    `}
    ${task.note && html`
      ${" "}
      <span class="note">${task.note}</span>
    `}
  `;
}

/** @param {{ row: Row }} props */
function States({ row }) {
  if (!row.group) return html`<${State} name=${row.state || "none"} />`;
  return html`
    <span class="row">
      ${byState(row.counts).map(([s, n]) => html`
        <${State} name=${s} count=${n} />
      `)}
    </span>
  `;
}

/** @param {{ task: Api["TaskInstanceResource"] }} props */
function Tries({ task }) {
  if (!(task.try_number > 0)) return "–";
  return html`
    <span class="nowrap">
      ${task.try_number}
      <span class="faint"> of ${task.max_tries + 1}</span>
    </span>
  `;
}

/** @param {{ task: Api["TaskInstanceResource"] }} props */
function Reason({ task }) {
  return html`
    <span class="faint clip reason" title=${task.reason || ""}>
      ${task.next_at ? html`
        next <${When} at=${task.next_at} ago />
      ` : (
        task.reason
      )}
    </span>
  `;
}
