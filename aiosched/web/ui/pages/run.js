// A run: its properties, why it is waiting or failed, its task instances, its conf, and actions.
import { html, useEffect, useState } from "../lib/html.js";
import { at, may, post } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { watchTopic } from "../lib/live.js";
import { runTitle } from "../lib/names.js";
import { useResource } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { byState, stateOf } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { ClearDialog } from "../parts/actions/clear.js";
import { MarkDialog } from "../parts/actions/mark.js";
import { Announce, Card, Notice, Page, Shown, State, Tabs, When } from "../parts/basics.js";
import { CopyButton } from "../parts/copy.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed } from "../parts/facts.js";
import { Chart } from "../parts/gantt/chart.js";
import { NextFailed } from "../parts/lists/next_failed.js";
import { RunGraph } from "../parts/graph/tab.js";
import { useRunResource } from "../parts/run_resource.js";
import { WhyCard } from "../parts/why.js";
import { Compare } from "./run/compare.js";
import { Details, RunFacts, StateBar } from "./run/facts.js";
import { Tasks } from "./run/tasks.js";

/** @type {Record<string, string>} */
const ENDS = {
  running: "is stopped",
  queued: "does not start",
  scheduled: "does not start",
  none: "does not start",
  deferred: "is stopped",
  up_for_retry: "is not retried",
  up_for_reschedule: "is not retried",
  restarting: "is stopped",
};

const TABS = [
  ["tasks", "Tasks"],
  ["time", "Timeline"],
  ["graph", "Graph"],
  ["compare", "Compare"],
  ["details", "Details"],
];

/**
 * @param {string} dag
 * @param {string | null} [name]  shown in place of its id
 * @returns {[string, string][]}
 */
const crumbsOf = (dag, name) => [
  ["DAGs", "/dags"],
  [name ?? dag, path("dags", dag)],
];

/** @param {{ dag: string, run: string }} props */
export function RunPage({ dag, run }) {
  /** @param {Patch} patch */
  const mine = (patch) => patch.kind === "task" || (patch.dag_id === dag && !patch.verb);
  /** @type {Resource<Api["RunDetails"]>} */
  const facts = useResource(at("dags", dag, "runs", run), {}, { kinds: ["run", "task"], concerns: mine });
  const key = facts.data.value?.key;
  useEffect(() => (key ? watchTopic(`run:${key}`) : undefined), [key]);
  if (!facts.data.value)
    return html`
      <${Page} title=${run} crumbs=${crumbsOf(dag)}>
        <${Card}>
          <${Shown} of=${facts} lines=${6} />
        <//>
      <//>
    `;
  return html`<${Run} run=${facts.data.value} reload=${facts.reload} />`;
}

/** @param {{ run: Api["RunDetails"], reload: () => void }} props */
function Run({ run, reload }) {
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const base = at("dags", run.dag_id, "runs", run.run_id);
  const tab = query.value.tab || "tasks";
  return html`
    <${Page}
      title=${runTitle(run)}
      crumbs=${[
        ...crumbsOf(run.dag_id, run.dag_display_name),
        ["Runs", path("dags", run.dag_id) + "?tab=grid"],
      ]}
      actions=${html`<${Actions} run=${run} setOpen=${setOpen} />`}
      lead=${html`<${Lead} run=${run} />`}
    >
      <${Announce} text=${`The run is ${stateOf(run.state).label}`} />
      <div class="columns wide-first">
        <${RunFacts} run=${run} base=${base} reload=${reload} />
        ${isExplained(run) && html`
          <${WhyCard}
            of=${base}
            concerns=${(p) => p.kind === "task" || p.dag_id === run.dag_id || p.kind === "dag"}
          />
        `}
      </div>
      <${Tabs} tabs=${TABS} />
      ${tab === "tasks" && html`<${Tasks} run=${run} base=${base} />`}
      ${tab === "time" && html`<${Time} run=${run} base=${base} />`}
      ${tab === "graph" && html`<${RunGraph} dagId=${run.dag_id} run=${run} />`}
      ${tab === "compare" && html`<${Compare} run=${run} base=${base} />`}
      ${tab === "details" && html`<${Details} run=${run} />`}
      ${open && html`
        <${ActionDialog} of=${open} run=${run} base=${base} onClose=${() => setOpen(null)} onDone=${reload} />
      `}
    <//>
  `;
}

/**
 * Whether the run is waiting for something or failed.
 * @param {Api["RunDetails"]} run
 */
function isExplained({ state, tasks }) {
  const busy = tasks.running || tasks.queued || tasks.deferred;
  return state === "queued" || state === "failed" || (state === "running" && !busy);
}

/** @param {{ run: Api["RunDetails"] }} props */
function Lead({ run }) {
  return html`
    <${State} name=${run.state} />
    <span class="soft">
      ${run.start_date ? (
        duration(secondsBetween(run.start_date, run.end_date))
      ) : html`
        due <${When} at=${run.run_after} ago />
      `}
    </span>
    ${run.partition_key && html`<span class="soft">partition ${run.partition_key}</span>`}
    <${StateBar} tasks=${run.tasks} />
    <span class="run-id">
      <code>${run.run_id}</code>
      <${CopyButton} text=${run.run_id} />
    </span>
  `;
}

/** @param {{ run: Api["RunDetails"], setOpen: (action: string) => void }} props */
function Actions({ run, setOpen }) {
  const failed = run.tasks.failed ?? 0;
  const ended = run.state === "success" || run.state === "failed";
  useKey("r", "rerun what failed", () => failed > 0 && may("operator") && setOpen("rerun"));
  return html`
    <${NextFailed}
      list="runs"
      after=${{ after_dag_id: run.dag_id, after_run_id: run.run_id }}
      pathOf=${(/** @type {Api["RunResource"]} */ one) => path("dags", one.dag_id, "runs", one.run_id)}
    />
    <${Allowed}>
      ${failed > 0 && html`
        <button class="button primary" aria-keyshortcuts="r" onClick=${() => setOpen("rerun")}>
          Rerun failed (${failed})
        </button>
      `}
      <button class="button" onClick=${() => setOpen("clear")}>
        Clear …
      </button>
      <button class="button" onClick=${() => setOpen("mark")}>
        Mark …
      </button>
      ${!ended && html`
        <button class="button danger" onClick=${() => setOpen("cancel")}>
          Cancel …
        </button>
      `}
    <//>
  `;
}

/**
 * The dialog of an action: "rerun" (what failed), "clear", "mark" or "cancel".
 * @param {DialogProps & { of: string, run: Api["RunDetails"], base: string }} props
 */
function ActionDialog({ of, run, base, onClose, onDone }) {
  const handlers = { onClose, onDone };
  if (of === "clear" || of === "rerun")
    return html`
      <${ClearDialog}
        dagId=${run.dag_id}
        selection=${{ run_ids: [run.run_id] }}
        options=${{ only_failed: of === "rerun" || run.state === "failed" }}
        ...${handlers}
      />
    `;
  if (of === "mark") return html`<${MarkDialog} dagId=${run.dag_id} runId=${run.run_id} ...${handlers} />`;
  return html`<${CancelDialog} run=${run} base=${base} ...${handlers} />`;
}

/** @param {DialogProps & { run: Api["RunDetails"], base: string }} props */
function CancelDialog({ run, base, onClose, onDone }) {
  return html`
    <${Confirm}
      title="Cancel the run"
      submitLabel="Cancel the run"
      danger
      act=${() => post(`${base}/cancel`)}
      done="Run cancelled."
      cli=${commandLine("runs cancel", [run.dag_id, run.run_id])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>The run ends as failed. Finished task instances are not changed.</p>
      <ul class="plain">
        ${byState(run.tasks)
          .filter(([s]) => ENDS[s])
          .map(([s, n]) => html`
            <li class="row">
              <${State} name=${s} count=${n} />
              <span class="soft">${ENDS[s]}</span>
            </li>
          `)}
      </ul>
    <//>
  `;
}

/** @param {{ run: Api["RunDetails"], base: string }} props */
function Time({ run, base }) {
  /** @type {Resource<Api["Gantt"]>} */
  const gantt = useRunResource(`${base}/gantt`, run.dag_id, run);
  return html`
    <${Card} title="Timeline">
      <${Shown} of=${gantt}>
        ${(chart) => html`
          ${!chart.complete && html`<${Notice} kind="warn">This run has more tries than shown here.<//>`}
          <${Chart} dagId=${run.dag_id} run=${run} gantt=${chart} />
        `}
      <//>
    <//>
  `;
}
