// The task instances of a run, those of a mapped task folded.
import { html } from "../../lib/html.js";
import { at, useList } from "../../lib/api.js";
import { taskName, taskPath } from "../../lib/names.js";
import { query, setQuery } from "../../lib/router.js";
import { byState } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, State, When } from "../../parts/basics.js";
import { Choices } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";

const FOLD = 3; // instances of a mapped task that are shown without folding

/** Rows of the table: single instances, and one row for a mapped task's instances, followed by them when it is open. */
function rowsOf(items, open) {
  const rows = [];
  for (let i = 0; i < items.length;) {
    let end = i + 1;
    while (end < items.length && items[end].task_id === items[i].task_id) end++;
    const group = items.slice(i, end);
    const folded = items[i].map_index >= 0 && group.length > FOLD;
    if (folded) rows.push({ group, task_id: items[i].task_id, open: open === items[i].task_id });
    if (!folded || open === items[i].task_id) rows.push(...group);
    i = end;
  }
  return rows;
}

const count = (items) =>
  items.reduce((counts, { state }) => ({ ...counts, [state || "none"]: (counts[state || "none"] || 0) + 1 }), {});

export function Tasks({ run, base }) {
  const { state, open } = query.value;
  const list = useList(
    `${base}/tasks`,
    { state },
    { kinds: ["task"], concerns: (p) => p.run === run.key, limit: 200 },
  );
  const fold = (row) => setQuery({ open: row.open ? null : row.task_id });
  const columns = [
    {
      head: "Task",
      cell: (t) =>
        t.group ? html`
          <button class="button quiet small fold" aria-expanded=${t.open} onClick=${() => fold(t)}>
            ${t.open ? "▾" : "▸"} ${t.task_id}${" "}
            <span class="faint">
              [${t.group.length}
              ${list.more.value && t.group.at(-1) === list.items.value.at(-1) ? "+" : ""}]
            </span>
          </button>
        ` : html`
            <${Link}
              to=${taskPath({ ...t, dag_id: run.dag_id, run_id: run.run_id })}
              class=${open === t.task_id ? "inner" : ""}
            >
              ${taskName(t)}
            <//>
            ${t.note && html`
                ${" "}
                <span class="note">${t.note}</span>
            `}
        `,
    },
    {
      head: "State",
      cell: (t) =>
        t.group ? html`
          <span class="row">
            ${byState(count(t.group)).map(([s, n]) => html`
              <${State} name=${s} count=${n} />
            `)}
          </span>
        ` : html`
          <${State} name=${t.state || "none"} />
        `,
    },
    {
      head: "Try",
      right: true,
      cell: (t) =>
        t.group ? (
          ""
        ) : t.try_number > 0 ? html`
          <span class="nowrap">
            ${t.try_number}
            <span class="faint"> of ${t.max_tries + 1}</span>
          </span>
        ` : (
          "–"
        ),
    },
    { head: "Started", cell: (t) => (t.group ? "" : html`<${When} at=${t.start_date} />`) },
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
    { head: "Operator", cell: (t) => (t.group ? "" : html`<span class="soft">${t.operator}</span>`) },
    {
      head: "Pool",
      cell: (t) => (t.group ? "" : html`<${Link} to=${`/pools?pool=${encodeURIComponent(t.pool)}`}>${t.pool}<//>`),
    },
    {
      head: "",
      cell: (t) =>
        t.group ? (
          ""
        ) : html`
          <span class="faint clip reason" title=${t.reason || ""}>
            ${t.next_at ? html`
                next <${When} at=${t.next_at} ago />
            ` : (
              t.reason
            )}
          </span>
        `,
    },
  ];
  const empty = html`
    <${Empty} title=${state ? "No task instance is in this state" : "The run has no task instances yet"}>
      ${state ? "Take the filter away to see all." : "They are made when the run starts."}
    <//>
  `;
  return html`
    <div class="stack tight">
      <${Choices}
        name="state"
        label="State"
        options=${byState(run.tasks).map(([s, n]) => [s, html`<${State} name=${s} count=${n} />`])}
      />
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          items=${list.loading.value && !list.items.value.length ? undefined : rowsOf(list.items.value, open)}
          keyOf=${(t) => (t.group ? `+${t.task_id}` : `${t.task_id} ${t.map_index}`)}
          empty=${list.error.value ? undefined : empty}
          caption="Task instances"
        />
      <//>
    </div>
  `;
}
