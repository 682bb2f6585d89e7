// The columns of the DAG list: pause switch, schedule, last runs, statistics, next run.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { href, path, setQuery } from "../../lib/router.js";
import { stateOf } from "../../lib/states.js";
import { duration, instant, now, relative } from "../../lib/time.js";
import { PauseSwitch } from "../../parts/actions/pause.js";
import { Link, State, Tag } from "../../parts/basics.js";
import { Schedule } from "../../parts/schedule.js";

/**
 * `statistics` by DAG id; `trigger(dagId)` opens the trigger dialog.
 * @param {Map<string, Api["Statistics"]>} statistics
 * @param {{ reload: () => void, trigger: (dagId: string) => void }} actions
 * @returns {Column<Api["DagResource"]>[]}
 */
export function columnsOf(statistics, { reload, trigger }) {
  /** @param {Api["DagResource"]} dag */
  const of = (dag) => statistics.get(dag.dag_id);
  /** @param {string} words */
  const hidden = (words) => html`<span class="hidden-text">${words}</span>`;
  const percentiles = html`<span title="median and 95th percentile of the run duration">p50 / p95</span>`;
  return [
    { head: hidden("Active"), cell: (d) => html`<${PauseSwitch} dag=${d} onDone=${() => reload()} />` },
    { head: "DAG", cell: (d) => html`<${Name} dag=${d} />` },
    { head: "Schedule", cell: (d) => html`<${Schedule} of=${d.schedule} />` },
    { head: "Last runs", cell: (d) => html`<${Bars} dagId=${d.dag_id} runs=${of(d)?.last_runs} />` },
    { head: "Success", right: true, cell: (d) => successOf(of(d)) },
    { head: percentiles, right: true, cell: (d) => durationsOf(of(d)) },
    { head: "Next run", cell: (d) => html`<${Next} dag=${d} />` },
    {
      head: hidden("Actions"),
      right: true,
      cell: (d) => html`<${TriggerButton} dagId=${d.dag_id} trigger=${trigger} />`,
    },
  ];
}

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
      <button class="button small" aria-label=${`Trigger ${dagId}`} onClick=${() => trigger(dagId)}>
        Trigger …
      </button>
    `
  );
}

/** @param {{ dag: Api["DagResource"] }} props */
const Name = ({ dag }) => html`
  <div class="stack tight">
    <span class="row">
      <${Link} class="name" to=${path("dags", dag.dag_id)}>
        ${dag.dag_id}
      <//>
      ${dag.quarantine && html`
        <span title=${`${dag.quarantine.place} failed: ${dag.quarantine.error}`}>
          <${Tag} kind="danger">quarantine<//>
        </span>
      `}
      ${dag.has_import_errors && html`<${Tag} kind="danger">import error<//>`}
      ${dag.is_stale && html`<${Tag} kind="warn">file missing<//>`}
      ${dag.is_paused && dag.active_runs > 0 && html`
        <${Tag} kind="warn">
          paused, ${dag.active_runs} ${dag.active_runs === 1 ? "run waiting" : "runs waiting"}
        <//>
      `}
      ${!dag.is_paused && dag.active_runs > 0 && html`<${State} name="running" count=${dag.active_runs} />`}
    </span>
    ${(dag.tags.length > 0 || dag.description) && html`
      <span class="row small">
        ${dag.tags.map((tag) => html`
          <button class="tag" title=${`Show only DAGs tagged ${tag}`} onClick=${() => setQuery({ tag })}>
            ${tag}
          </button>
        `)}
        ${dag.description && html`<span class="faint clip">${dag.description}</span>`}
      </span>
    `}
  </div>
`;

/** @param {{ dagId: string, runs: Api["RunBar"][] | undefined }} props */
function Bars({ dagId, runs }) {
  if (!runs) return html`<span class="bars" />`;
  if (!runs.length) return html`<span class="faint">no runs yet</span>`;
  const longest = Math.max(...runs.map((run) => run.seconds ?? 0), 0.001);
  return html`
    <span class="bars">
      ${runs.map((run, i) => {
        const took = run.seconds === null ? "" : `, ${duration(run.seconds)}`;
        const words = `${stateOf(run.state).label}, ${instant(run.run_after)}${took}`;
        return html`
          <a
            key=${run.run_id}
            class=${run.state}
            href=${href(path("dags", dagId, "runs", run.run_id))}
            title=${words}
            aria-label=${words}
            tabindex=${i === runs.length - 1 ? 0 : -1}
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
