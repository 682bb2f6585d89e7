// All DAGs: pause switch, schedule, the last runs as bars, how they usually go, the next run.
import { html, useEffect, useMemo, useRef, useSignal, useState } from "../lib/html.js";
import { Problem, get, may, useList } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { onPatch } from "../lib/live.js";
import { query, setQuery } from "../lib/router.js";
import { duration } from "../lib/time.js";
import { Bars, Name, Next } from "./dags/cells.js";
import { PauseSwitch } from "../parts/actions/pause.js";
import { TriggerDialog } from "../parts/actions/trigger.js";
import { Card, Empty, Page } from "../parts/basics.js";
import { Schedule } from "../parts/schedule.js";
import { Table } from "../parts/table.js";

const PIECE = 50; // DAGs whose runs are asked for at a time

const STATUSES = [
  ["active", "active"],
  ["paused", "paused"],
  ["error", "with import errors"],
  ["stale", "without their file"],
];

export function Dags() {
  const { q, tag, status } = query.value;
  const list = useList(
    "dags",
    { pattern: q ? `*${q}*` : null, tag, status },
    { kinds: ["dag", "run"], limit: 50, calm: 1500 },
  );
  const bars = useStatistics(list.items.value.map((dag) => dag.dag_id));
  const [triggering, setTriggering] = useState(null);
  const search = useRef(null);
  useKey("/", "search the DAGs", () => search.current?.focus());
  const tags = [...new Set([...list.items.value.flatMap((dag) => dag.tags), ...(tag ? [tag] : [])])].sort();
  const of = (dag) => bars.get(dag.dag_id);
  const columns = [
    {
      head: html`<span class="hidden-text">On</span>`,
      cell: (d) => html`<${PauseSwitch} dag=${d} onDone=${() => list.reload()} />`,
    },
    { head: "DAG", cell: (d) => html`<${Name} dag=${d} />` },
    { head: "Schedule", cell: (d) => html`<${Schedule} of=${d.schedule} />` },
    { head: "Last runs", cell: (d) => html`<${Bars} dagId=${d.dag_id} runs=${of(d)?.last_runs} />` },
    {
      head: "Success",
      right: true,
      cell: (d) =>
        of(d)?.success_rate === null || !of(d) ? html`
          <span class="faint">–</span>
        ` : (
          `${Math.round(of(d).success_rate * 100)} %`
        ),
    },
    {
      head: html`<span title="the usual duration, and the one that 95 % stay below">p50 / p95</span>`,
      right: true,
      cell: (d) =>
        !of(d) || of(d).p50 === null ? html`
          <span class="faint">–</span>
        ` : html`
          <span class="nowrap">
            ${duration(of(d).p50)} / ${duration(of(d).p95)}
          </span>
        `,
    },
    { head: "Next run", cell: (d) => html`<${Next} dag=${d} />` },
    {
      head: html`<span class="hidden-text">Actions</span>`,
      right: true,
      cell: (d) =>
        may("operator") && html`
          <button
            class="button small"
            aria-label=${`Trigger ${d.dag_id}`}
            onClick=${() => setTriggering(d.dag_id)}
          >
            Trigger …
          </button>
        `,
    },
  ];
  const filtered = q || tag || status;
  const empty = filtered ? html`
    <${Empty} title="No such DAG">
      <button class="button" onClick=${() => setQuery({ q: null, tag: null, status: null })}>
        Remove the filters
      </button>
    <//>
  ` : html`
    <${Empty} title="No DAG yet" command="aiosched init demo">
      Put a DAG file into the DAGs folder: it appears here when it is parsed.
    <//>
  `;
  return html`
    <${Page} title="DAGs">
      <div class="row">
        <input
          class="input"
          ref=${search}
          type="search"
          placeholder="Search ( / )"
          aria-label="Search DAGs"
          value=${q ?? ""}
          onInput=${(e) => setQuery({ q: e.target.value })}
        />
        <select
          class="input"
          aria-label="Status"
          value=${status ?? ""}
          onChange=${(e) => setQuery({ status: e.target.value })}
        >
          <option value="">any status</option>
          ${STATUSES.map(([name, words]) => html`
            <option value=${name}>${words}</option>
          `)}
        </select>
        <select
          class="input"
          aria-label="Tag"
          value=${tag ?? ""}
          onChange=${(e) => setQuery({ tag: e.target.value })}
        >
          <option value="">any tag</option>
          ${tags.map((one) => html`
            <option value=${one}>${one}</option>
          `)}
        </select>
      </div>
      <${Card} plain class="card dags">
        <${Table} columns=${columns} list=${list} keyOf=${(d) => d.dag_id} empty=${empty} caption="DAGs" />
      <//>
      ${triggering && html`
        <${TriggerDialog} dagId=${triggering} onClose=${() => setTriggering(null)} onDone=${() => list.reload()} />
      `}
    <//>
  `;
}

/** The last runs of many DAGs: a Map by id, asked in pieces; those that have news are asked again. */
function useStatistics(ids) {
  const known = useSignal(new Map());
  const asker = useMemo(() => {
    const wanted = new Set();
    let due = null;
    const read = async () => {
      const some = [...wanted].slice(0, PIECE);
      some.forEach((id) => wanted.delete(id));
      try {
        const { items } = await get("dag-statistics", { dag_id: some });
        known.value = new Map([...known.value, ...items.map((one) => [one.dag_id, one])]);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      } // the list itself says that nothing can be read
      due = wanted.size ? setTimeout(read, 0) : null;
    };
    return {
      ask: (some, soon) => {
        some.forEach((id) => wanted.add(id));
        if (wanted.size) due ??= setTimeout(read, soon);
      },
      end: () => clearTimeout(due),
    };
  }, []);
  const shown = useRef(ids);
  shown.current = ids;
  useEffect(
    () =>
      asker.ask(
        ids.filter((id) => !known.value.has(id)),
        0,
      ),
    [ids.join(" ")],
  );
  useEffect(() => {
    const off = onPatch((patch) => {
      if (patch.kind === "reset") asker.ask(shown.current, 500);
      else if (patch.kind === "run" && shown.current.includes(patch.dag_id)) asker.ask([patch.dag_id], 500);
    });
    return () => {
      off();
      asker.end();
    };
  }, []);
  return known.value;
}
