// All DAGs: pause switch, schedule, the last runs as bars, statistics, the next run.
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

const BATCH = 50; // DAGs per statistics request

/** @type {Choice[]} */
const STATUSES = [
  ["active", "active"],
  ["paused", "paused"],
  ["quarantine", "in quarantine"],
  ["error", "with import errors"],
  ["stale", "with missing file"],
];

export function Dags() {
  const { q, tag, status } = query.value;
  const filters = { pattern: q ? `*${q}*` : null, tag, status };
  /** @type {List<Api["DagResource"]>} */
  const list = useList("dags", filters, { kinds: ["dag", "run"], limit: 50, delay: 1500 });
  const statistics = useStatistics(list.items.value.map((dag) => dag.dag_id));
  const [triggering, setTriggering] = useState(/** @type {string | null} */ (null));
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

/** @param {{ dags: Api["DagResource"][] }} props */
function Filters({ dags }) {
  const { q, tag, status } = query.value;
  /** @type {Ref<HTMLInputElement | null>} */
  const search = useRef(null);
  useKey("/", "search DAGs", () => search.current?.focus());
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

/** @param {{ filtered: boolean }} props */
function NoDag({ filtered }) {
  if (filtered)
    return html`
      <${Empty} title="No matching DAGs">
        <button class="button" onClick=${() => setQuery({ q: null, tag: null, status: null })}>
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

/**
 * The statistics of many DAGs as a Map by id, loaded in batches; DAGs whose runs change are reloaded.
 * @param {string[]} ids
 */
function useStatistics(ids) {
  /** @type {Signal<Map<string, Api["Statistics"]>>} */
  const known = useSignal(new Map());
  const loader = useMemo(() => {
    /** @type {Set<string>} */
    const wanted = new Set();
    /** @type {number | undefined} */
    let timer;
    const read = async () => {
      const some = [...wanted].slice(0, BATCH);
      some.forEach((id) => wanted.delete(id));
      try {
        /** @type {Api["StatisticsList"]} */
        const { items } = await get("dag-statistics", { dag_id: some });
        const next = new Map(known.value);
        for (const one of items) next.set(one.dag_id, one);
        known.value = next;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      } // the list itself shows the error
      timer = wanted.size ? setTimeout(read, 0) : undefined;
    };
    return {
      /**
       * @param {string[]} some
       * @param {number} delay in ms
       */
      load: (some, delay) => {
        some.forEach((id) => wanted.add(id));
        if (wanted.size) timer ??= setTimeout(read, delay);
      },
      end: () => clearTimeout(timer),
    };
  }, []);
  const shown = useRef(ids);
  shown.current = ids;
  useEffect(
    () =>
      loader.load(
        ids.filter((id) => !known.value.has(id)),
        0,
      ),
    [ids.join(" ")],
  );
  useEffect(() => {
    const off = onPatch((patch) => {
      if (patch.kind === "reset") loader.load(shown.current, 500);
      else if (patch.kind === "run" && shown.current.includes(patch.dag_id)) loader.load([patch.dag_id], 500);
    });
    return () => {
      off();
      loader.end();
    };
  }, []);
  return known.value;
}
