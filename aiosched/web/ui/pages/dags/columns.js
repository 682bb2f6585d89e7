// The columns of the DAG list: selection, pause switch, owner, schedule, last runs, statistics, next run.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { shownDag } from "../../lib/names.js";
import { href, path, query, setQuery } from "../../lib/router.js";
import { stateOf } from "../../lib/states.js";
import { duration, instant, now, relative } from "../../lib/time.js";
import { PauseSwitch } from "../../parts/actions/pause.js";
import { Link, State, Tag } from "../../parts/basics.js";
import { Menu } from "../../parts/menu.js";
import { Schedule } from "../../parts/schedule.js";
import { Favourite } from "./favourites.js";

/**
 * `statistics` by DAG id; `trigger(dagId)` opens the trigger dialog; `selection` are the columns to select rows.
 * @param {Map<string, Api["Statistics"]>} statistics
 * @param {Column<Api["DagResource"]>[]} selection
 * @param {{ reload: () => void, trigger: (dagId: string) => void }} actions
 * @returns {Column<Api["DagResource"]>[]}
 */
export function columnsOf(statistics, selection, { reload, trigger }) {
  /** @param {Api["DagResource"]} dag */
  const of = (dag) => statistics.get(dag.dag_id);
  /** @param {string} words */
  const hidden = (words) => html`<span class="hidden-text">${words}</span>`;
  const percentiles = html`<span title="median and 95th percentile of the run duration">p50 / p95</span>`;
  return [
    ...selection,
    {
      head: hidden("Active"),
      width: 82,
      cell: (d) => html`
        <span class="row switches">
          <${Favourite} dagId=${d.dag_id} />
          <${PauseSwitch} dag=${d} onDone=${() => reload()} />
        </span>
      `,
    },
    { ...sortable("DAG", "dag_id", "dag_id"), stays: "left", cell: (d) => html`<${Name} dag=${d} />` },
    {
      ...sortable("Owner", "owner"),
      width: 104,
      cell: (d) => d.owner && html`<span title=${d.owner}>${d.owner}</span>`,
    },
    { head: "Tags", width: 112, cell: (d) => html`<${Tags} dag=${d} />` },
    {
      head: "Schedule",
      width: 124,
      cell: (d) => html`<${Schedule} of=${d.schedule} timezone=${d.schedule_timezone} />`,
    },
    { ...sortable("Last state", "last_state"), width: 96, cell: (d) => html`<${LastState} dag=${d} />` },
    {
      ...sortable("Last runs", "-last_run"),
      width: 130,
      cell: (d) => html`<${Bars} dagId=${d.dag_id} runs=${of(d)?.last_runs} />`,
    },
    { head: "Success", right: true, least: 1000, width: 72, cell: (d) => successOf(of(d)) },
    {
      head: percentiles,
      label: "p50 / p95",
      right: true,
      least: 1300,
      width: 132,
      cell: (d) => durationsOf(of(d)),
    },
    { ...sortable("Next run", "next_run"), width: 100, cell: (d) => html`<${Next} dag=${d} />` },
    {
      head: hidden("Actions"),
      right: true,
      stays: "right",
      width: 44,
      cell: (d) => html`<${TriggerButton} dagId=${d.dag_id} trigger=${trigger} />`,
    },
  ];
}

/**
 * The head of a column by which the list can be sorted; `first` is the order of the first click.
 * @param {string} words
 * @param {string} first
 * @param {string} [initial]  the order of the list before any click
 * @returns {Pick<Column<unknown>, "head" | "label" | "sorted">}
 */
function sortable(words, first, initial) {
  const order = query.value.order ?? initial;
  const other = first.startsWith("-") ? first.slice(1) : `-${first}`;
  const sorted =
    order === first || order === other ? (order.startsWith("-") ? "descending" : "ascending") : undefined;
  const head = html`
    <button class="sort" onClick=${() => setQuery({ order: order === first ? other : first })}>
      ${words}
      <span aria-hidden="true">${sorted ? (sorted === "ascending" ? " ▲" : " ▼") : ""}</span>
    </button>
  `;
  return { head, label: words, sorted };
}

/** @param {{ dag: Api["DagResource"] }} props */
function LastState({ dag }) {
  if (!dag.last_run_id) return nothing();
  return html`
    <${Link} class="quiet" to=${path("dags", dag.dag_id, "runs", dag.last_run_id)}>
      <${State} name=${dag.last_run_state} />
    <//>
  `;
}

const BARS = 14;

const nothing = () => html`<span class="faint">–</span>`;

/** @param {Api["Statistics"] | undefined} found */
const successOf = (found) =>
  !found || found.success_rate === null ? nothing() : `${Math.round(found.success_rate * 100)} %`;

/** @param {Api["Statistics"] | undefined} found */
const durationsOf = (found) =>
  !found || found.p50 === null ? (
    nothing()
  ) : html`
    <span class="nowrap">
      ${duration(found.p50)} / ${duration(found.p95)}
    </span>
  `;

/** @param {{ dagId: string, trigger: (dagId: string) => void }} props */
function TriggerButton({ dagId, trigger }) {
  return (
    may("operator") && html`
      <button
        class="button small"
        aria-label=${`Trigger ${dagId}`}
        title="Trigger …"
        onClick=${() => trigger(dagId)}
      >
        ▶
      </button>
    `
  );
}

/** @param {{ dag: Api["DagResource"] }} props */
const Name = ({ dag }) => html`
  <span class="row line">
    <${Link}
      class="name clip"
      to=${path("dags", dag.dag_id)}
      title=${dag.description ? `${dag.dag_id}: ${dag.description}` : dag.dag_id}
    >
      ${shownDag(dag)}
    <//>
    <${Marks} dag=${dag} />
  </span>
`;

/**
 * What is out of the ordinary with a DAG, or how many of its runs are running.
 * @param {{ dag: Api["DagResource"] }} props
 */
function Marks({ dag }) {
  const { quarantine, active_runs: active } = dag;
  if (quarantine)
    return html`
      <span title=${`${quarantine.place} failed: ${quarantine.error}`}>
        <${Tag} kind="danger">quarantine<//>
      </span>
    `;
  if (dag.has_import_errors) return html`<${Tag} kind="danger">import error<//>`;
  if (dag.is_stale) return html`<${Tag} kind="warn">file missing<//>`;
  if (!active) return null;
  const words = active === 1 ? "run waiting" : "runs waiting";
  return dag.is_paused ? html`
    <${Tag} kind="warn">
      paused, ${active} ${words}
    <//>
  ` : html`
    <${State} name="running" count=${active} />
  `;
}

/** @param {{ dag: Api["DagResource"] }} props */
function Tags({ dag: { tags } }) {
  if (!tags.length) return null;
  const [first, ...others] = tags;
  return html`
    <span class="row line">
      <button
        class="tag clip"
        title=${`Show only DAGs tagged ${first}`}
        onClick=${() => setQuery({ tag: first, not_tag: null })}
      >
        ${first}
      </button>
      ${others.length > 0 && html`
        <${Menu} words=${`+${others.length}`} label=${`${others.length} more tags`}>
          ${others.map((tag) => html`
            <button key=${tag} class="tag" onClick=${() => setQuery({ tag, not_tag: null })}>
              ${tag}
            </button>
          `)}
        <//>
      `}
    </span>
  `;
}

/** @param {{ dagId: string, runs: Api["RunBar"][] | undefined }} props */
function Bars({ dagId, runs }) {
  if (!runs) return html`<span class="bars" />`;
  if (!runs.length) return html`<span class="faint">no runs yet</span>`;
  const shown = runs.slice(-BARS);
  const longest = Math.max(...shown.map((run) => run.seconds ?? 0), 0.001);
  return html`
    <span class="bars">
      ${shown.map((run, i) => {
        const took = run.seconds === null ? "" : `, ${duration(run.seconds)}`;
        const words = `${stateOf(run.state).label}, ${instant(run.run_after)}${took}`;
        return html`
          <a
            key=${run.run_id}
            class=${run.state}
            href=${href(path("dags", dagId, "runs", run.run_id))}
            title=${words}
            aria-label=${`Run of ${dagId}: ${words}`}
            tabindex=${i === shown.length - 1 ? 0 : -1}
            style=${{
              "--c": `var(--state-${run.state})`,
              height: `${Math.round(5 + ((run.seconds ?? 0) / longest) * 21)}px`,
            }}
          />
        `;
      })}
    </span>
  `;
}

/** @param {{ dag: Api["DagResource"] }} props */
function Next({ dag }) {
  if (!dag.next_run_after) return html`<span class="faint">–</span>`;
  if (dag.is_paused)
    return html`
      <span class="faint" title=${instant(dag.next_run_after)}>
        paused
      </span>
    `;
  const late = Date.parse(dag.next_run_after) < now.value - 60_000;
  return html`
    <time class="tabular nowrap" datetime=${dag.next_run_after} title=${instant(dag.next_run_after)}>
      ${late ? html`
        <${Tag} kind="warn">late, due ${relative(dag.next_run_after)}<//>
      ` : (
        relative(dag.next_run_after)
      )}
    </time>
  `;
}
