// A run: its facts, why it waits or failed, its task instances by state, its values, and what can be done with it.
import { html, useEffect, useState } from "../lib/html.js";
import { at, post, useResource } from "../lib/api.js";
import { watchTopic } from "../lib/live.js";
import { path, query } from "../lib/router.js";
import { byState, runTypeWords, stateOf } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { REASONS, StateBar } from "./run/facts.js";
import { Tasks } from "./run/tasks.js";
import { ClearDialog } from "../parts/actions/clear.js";
import { MarkDialog } from "../parts/actions/mark.js";
import { Card, Empty, Facts, Link, Notice, Page, Said, Shown, State, Tabs, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed, Note, Text, pretty } from "../parts/facts.js";
import { Chart } from "../parts/gantt/chart.js";
import { useRunResource } from "../parts/run_resource.js";
import { WhyCard } from "../parts/why.js";

const ENDS = {
  running: "is stopped",
  queued: "does not start",
  scheduled: "does not start",
  none: "does not start",
  deferred: "is stopped",
  up_for_retry: "does not try again",
  up_for_reschedule: "does not try again",
  restarting: "is stopped",
};

const TABS = [
  ["tasks", "Tasks"],
  ["time", "Time"],
  ["details", "Details"],
];

export function RunPage({ dag, run }) {
  const mine = (patch) => patch.kind === "task" || (patch.dag_id === dag && !patch.verb);
  const facts = useResource(at("dags", dag, "runs", run), {}, { kinds: ["run", "task"], concerns: mine });
  const key = facts.data.value?.key;
  useEffect(() => key && watchTopic(`run:${key}`), [key]);
  if (!facts.data.value)
    return html`
      <${Page}
        title=${run}
        crumbs=${[
          ["DAGs", "/dags"],
          [dag, path("dags", dag)],
        ]}
      >
        <${Card}>
          <${Shown} of=${facts} lines=${6} />
        <//>
      <//>
    `;
  return html`<${Run} run=${facts.data.value} reload=${facts.reload} />`;
}

function Run({ run, reload }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const base = at("dags", run.dag_id, "runs", run.run_id);
  const over = run.state === "success" || run.state === "failed";
  const tab = query.value.tab || "tasks";
  const busy = run.tasks.running || run.tasks.queued || run.tasks.deferred;
  const actions = html`
    <${Allowed}>
      <button class="button" onClick=${() => setOpen("clear")}>
        Clear …
      </button>
      <button class="button" onClick=${() => setOpen("mark")}>
        Mark …
      </button>
      ${!over && html`
        <button class="button danger" onClick=${() => setOpen("cancel")}>
          Cancel …
        </button>
      `}
    <//>
  `;
  return html`
    <${Page}
      title=${run.run_id}
      crumbs=${[
        ["DAGs", "/dags"],
        [run.dag_id, path("dags", run.dag_id)],
        ["Runs", path("dags", run.dag_id) + "?tab=grid"],
      ]}
      actions=${actions}
      lead=${
        html`
          <${State} name=${run.state} />
          <span class="soft">
            ${run.start_date ? (
              duration(secondsBetween(run.start_date, run.end_date))
            ) : html`
                may start <${When} at=${run.run_after} ago />
            `}
          </span>
          <${StateBar} tasks=${run.tasks} />
        `
      }
    >
      <${Said} words=${`The run is ${stateOf(run.state).label}`} />
      <div class="columns wide-first">
        <${Card} title="Run">
          <${Facts}
            rows=${[
              [
                "DAG",
                html`
                  <${Link} to=${path("dags", run.dag_id)}>${run.dag_id}<//>${" "}
                  <span class="faint">version ${run.version}</span>
                `,
              ],
              ["Logical date", html`<${When} at=${run.logical_date} />`],
              [
                "Data interval",
                run.data_interval_start && html`
                    <${When} at=${run.data_interval_start} /> – <${When} at=${run.data_interval_end} />
                `,
              ],
              ["Run after", html`<${When} at=${run.run_after} />`],
              ["Queued", run.queued_at && html`<${When} at=${run.queued_at} />`],
              ["Started", html`<${When} at=${run.start_date} />`],
              ["Ended", html`<${When} at=${run.end_date} />`],
              ["Type", `${runTypeWords(run.run_type)}, by ${run.triggered_by}`],
              ["Because", REASONS[run.reason] ?? run.reason],
              ["Note", html`<${Note} path=${`${base}/note`} text=${run.note} onDone=${reload} />`],
            ]}
          />
        <//>
        ${(run.state === "queued" || run.state === "failed" || (run.state === "running" && !busy)) && html`
          <${WhyCard}
            of=${base}
            concerns=${(p) => p.kind === "task" || p.dag_id === run.dag_id || p.kind === "dag"}
          />
        `}
      </div>
      <${Tabs} tabs=${TABS} />
      ${tab === "tasks" && html`<${Tasks} run=${run} base=${base} />`}
      ${tab === "time" && html`<${Time} run=${run} base=${base} />`}
      ${tab === "details" && html`
        <div class="columns">
          <${Card} title="Values (conf)">
            ${Object.keys(run.conf).length ? html`
              <${Text} text=${pretty(run.conf)} />
            ` : html`
              <p class="soft">The run was given no values of its own.</p>
            `}
          <//>
          <${Card} title="In other words">
            <${Facts}
              rows=${[
                ["Run id", html`<code>${run.run_id}</code>`],
                ["Number", run.key],
                ["Command line", html`<code>${commandLine("runs", "show", run.dag_id, run.run_id)}</code>`],
              ]}
            />
          <//>
        </div>
      `}
      ${open === "clear" && html`
        <${ClearDialog}
          dagId=${run.dag_id}
          selection=${{ run_ids: [run.run_id] }}
          options=${{ only_failed: run.state === "failed" }}
          onClose=${close}
          onDone=${reload}
        />
      `}
      ${open === "mark" && html`
        <${MarkDialog} dagId=${run.dag_id} runId=${run.run_id} onClose=${close} onDone=${reload} />
      `}
      ${open === "cancel" && html`
        <${Confirm}
          title="Cancel the run"
          words="Cancel the run"
          danger
          act=${() => post(`${base}/cancel`)}
          done="The run is cancelled."
          cli=${commandLine("runs", "cancel", run.dag_id, run.run_id)}
          onClose=${close}
          onDone=${reload}
        >
          <p>The run ends as failed. Finished task instances stay as they are.</p>
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
      `}
    <//>
  `;
}

// ---- in time ----

function Time({ run, base }) {
  const gantt = useRunResource(`${base}/gantt`, run.dag_id, run);
  return html`
    <${Card} title="In time">
      <${Shown} of=${gantt}>
        ${({ items, complete }) =>
          items.length ? html`
              ${!complete && html`<${Notice} kind="warn">The run has more tries than are shown.<//>`}
              <${Chart} dagId=${run.dag_id} run=${run} items=${items} />
          ` : html`
            <${Empty} title="Nothing has been tried yet" />
          `
        }
      <//>
    <//>
  `;
}
