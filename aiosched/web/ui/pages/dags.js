// All DAGs: pause switch, schedule, the last runs as bars, how they usually go, the next run.
import { html, useEffect, useMemo, useRef, useSignal, useState } from "../lib/html.js";
import { Problem, get } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { onPatch } from "../lib/live.js";
import { useList } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";
import { TriggerDialog } from "../parts/actions/trigger.js";
import { Card, Empty, Page } from "../parts/basics.js";
import { Filter, SearchField } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { columnsOf } from "./dags/columns.js";

const PIECE = 50; // DAGs whose runs are asked for at a time

const STATUSES = [
  ["active", "active"],
  ["paused", "paused"],
  ["error", "with import errors"],
  ["stale", "without their file"],
];

export function Dags() {
  const { q, tag, status } = query.value;
  const wish = { pattern: q ? `*${q}*` : null, tag, status };
  const list = useList("dags", wish, { kinds: ["dag", "run"], limit: 50, calm: 1500 });
  const statistics = useStatistics(list.items.value.map((dag) => dag.dag_id));
  const [triggering, setTriggering] = useState(null);
  const columns = columnsOf(statistics, { reload: list.reload, trigger: setTriggering });
  const empty = html`<${NoDag} filtered=${Boolean(q || tag || status)} />`;
  return html`
    <${Page} title="DAGs">
      <${Filters} dags=${list.items.value} />
      <${Card} plain class="card dags">
        <${Table} columns=${columns} list=${list} keyOf=${(d) => d.dag_id} empty=${empty} caption="DAGs" />
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

/** @param {{ dags: Api["Dag"][] }} props */
function Filters({ dags }) {
  const { q, tag, status } = query.value;
  const search = useRef(null);
  useKey("/", "search the DAGs", () => search.current?.focus());
  const tags = [...new Set([...dags.flatMap((dag) => dag.tags), ...(tag ? [tag] : [])])].sort();
  return html`
    <div class="row">
      <${SearchField}
        field=${search}
        label="Search DAGs"
        words="Search ( / )"
        value=${q}
        onText=${(text) => setQuery({ q: text })}
      />
      <${Filter}
        label="Status"
        value=${status}
        any="any status"
        options=${STATUSES}
        onText=${(text) => setQuery({ status: text })}
      />
      <${Filter}
        label="Tag"
        value=${tag}
        any="any tag"
        options=${tags.map((one) => [one, one])}
        onText=${(text) => setQuery({ tag: text })}
      />
    </div>
  `;
}

function NoDag({ filtered }) {
  if (filtered)
    return html`
      <${Empty} title="No such DAG">
        <button class="button" onClick=${() => setQuery({ q: null, tag: null, status: null })}>
          Remove the filters
        </button>
      <//>
    `;
  return html`
    <${Empty} title="No DAG yet" command="aiosched init demo">
      Put a DAG file into the DAGs folder: it appears here when it is parsed.
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
