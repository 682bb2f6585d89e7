// The properties of a run.
import { html } from "../../lib/html.js";
import { readable } from "../../lib/json.js";
import { shownDag } from "../../lib/names.js";
import { path } from "../../lib/router.js";
import { byState, runTypeWords } from "../../lib/states.js";
import { Card, Facts, Link, When } from "../../parts/basics.js";
import { commandLine } from "../../parts/dialog.js";
import { Note, Parts } from "../../parts/facts.js";
import { Json } from "../../parts/json.js";

/** @type {Record<string, string>} */
export const REASONS = {
  task_failure: "A task failed, so the run failed.",
  all_tasks_deadlocked: "Deadlock: the unfinished tasks wait for something that will never happen.",
  deadline_missed: "The run missed its deadline.",
};

/** @param {{ tasks: Record<string, number> }} props */
export function StateBar({ tasks }) {
  const all = Object.values(tasks).reduce((a, b) => a + b, 0);
  if (!all) return null;
  const found = byState(tasks);
  return html`
    <${Parts}
      label=${found.map(([s, n]) => `${n} ${s.replaceAll("_", " ")}`).join(", ")}
      parts=${[...found]
        .reverse()
        .map(([s, n]) => ({ share: n / all, name: `state-${s}`, words: `${n} ${s.replaceAll("_", " ")}` }))}
    />
  `;
}

/** @param {{ run: Api["RunDetails"], base: string, reload: () => void }} props */
export function RunFacts({ run, base, reload }) {
  return html`
    <${Card} title="Run">
      <${Facts}
        rows=${[
          [
            "DAG",
            html`
              <${Link} to=${path("dags", run.dag_id)} title=${run.dag_id}>
                ${shownDag(run)}
              <//>${" "}
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
          ["Reason", REASONS[run.reason ?? ""] ?? run.reason],
          ["Note", html`<${Note} path=${`${base}/note`} text=${run.note} onDone=${reload} />`],
        ]}
      />
    <//>
  `;
}

/** @param {{ run: Api["RunDetails"] }} props */
export function Details({ run }) {
  return html`
    <div class="columns">
      <${Card} title="Conf">
        ${Object.keys(run.conf).length ? html`
          <${Json} value=${readable(run.conf)} />
        ` : html`
          <p class="soft">The run has no conf.</p>
        `}
      <//>
      <${Card} title="Identifiers">
        <${Facts}
          rows=${[
            ["DAG id", html`<code>${run.dag_id}</code>`],
            ["Run id", html`<code>${run.run_id}</code>`],
            ["Key", run.key],
            ["Command line", html`<code>${commandLine("runs show", [run.dag_id, run.run_id])}</code>`],
          ]}
        />
      <//>
    </div>
  `;
}
