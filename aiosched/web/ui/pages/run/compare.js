// A run beside another one of its DAG: durations and states of tasks, the conf, and the version.
import { html } from "../../lib/html.js";
import { readable } from "../../lib/json.js";
import { numeral, runTitle } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { path, query, setQuery } from "../../lib/router.js";
import { byState } from "../../lib/states.js";
import { duration } from "../../lib/time.js";
import { Card, Duration, Empty, Facts, Link, Shown, State, When } from "../../parts/basics.js";
import { RunSelect, useLatestRuns } from "../../parts/dag/runs.js";
import { Table } from "../../parts/table.js";

/** @param {{ run: Api["RunDetails"], base: string }} props */
export function Compare({ run, base }) {
  const { other } = query.value;
  const runs = useLatestRuns(run.dag_id) ?? [];
  /** @type {Resource<Api["Comparison"]>} */
  const found = useResource(
    `${base}/comparison`,
    { other },
    { kinds: ["run", "task"], concerns: (p) => p.run === run.key || p.dag_id === run.dag_id },
  );
  return html`
    <div class="stack">
      <${RunSelect}
        words="Compare with"
        none="the run before"
        runs=${runs.filter((one) => one.run_id !== run.run_id)}
        chosen=${other}
        onChoose=${(/** @type {string} */ chosen) => setQuery({ other: chosen })}
      />
      <${Shown} of=${found}>
        ${(/** @type {Api["Comparison"]} */ both) =>
          both.before ? html`
            <${Both} before=${both.before} both=${both} />
          ` : html`
            <${Card}>
              <${Empty} title="This is the first run of the DAG">Choose another run to compare with.<//>
            <//>
          `
        }
      <//>
    </div>
  `;
}

/** @param {{ before: Api["RunResource"], both: Api["Comparison"] }} props */
function Both({ before, both: { after, conf, tasks } }) {
  const diff = `${path("dags", after.dag_id)}?tab=code&version=${after.version}&against=${before.version}`;
  return html`
    <div class="columns">
      <${Card} title="Runs">
        <${Facts}
          rows=${[
            ["Compared with", html`<${RunLink} run=${before} />`],
            ["Its state", html`<${State} name=${before.state} />`],
            ["Its date", html`<${When} at=${before.logical_date ?? before.run_after} />`],
            [
              "Duration",
              html`
                <${Duration} seconds=${before.seconds} /> → <${Duration} seconds=${after.seconds} />${" "}
                <${Change} before=${before.seconds} after=${after.seconds} />
              `,
            ],
            [
              "Version",
              before.version === after.version ? (
                `the same, ${after.version}`
              ) : html`
                ${before.version} → ${after.version} <${Link} to=${diff}>View changes<//>
              `,
            ],
          ]}
        />
      <//>
      <${Card} title="Conf" plain=${conf.length > 0}>
        ${conf.length ? html`
          <${Table} columns=${CONF} items=${conf} keyOf=${(/** @type {Api["ChangedValue"]} */ v) => v.name} />
        ` : html`
          <p class="soft">The conf is the same.</p>
        `}
      <//>
    </div>
    <${Card} title="Tasks" plain>
      <${Table}
        caption="Tasks of both runs"
        columns=${columnsOf(after)}
        items=${tasks}
        keyOf=${(/** @type {Api["ComparedTask"]} */ task) => task.task_id}
        empty=${html`<${Empty} title="Neither run has task instances" />`}
      />
    <//>
  `;
}

/** @param {{ run: Api["RunResource"] }} props */
const RunLink = ({ run }) => html`
  <${Link} to=${path("dags", run.dag_id, "runs", run.run_id)} title=${run.run_id}>
    ${runTitle(run)}
  <//>
`;

/** @param {unknown} value */
function shown(value) {
  if (value === null || value === undefined) return html`<span class="faint">–</span>`;
  return html`<code>${JSON.stringify(readable(value))}</code>`;
}

/** @type {Column<Api["ChangedValue"]>[]} */
const CONF = [
  { head: "Name", cell: (v) => html`<b>${v.name}</b>` },
  { head: "Before", cell: (v) => shown(v.before) },
  { head: "This run", cell: (v) => shown(v.after) },
];

/**
 * @param {Api["RunResource"]} run
 * @returns {Column<Api["ComparedTask"]>[]}
 */
const columnsOf = (run) => [
  {
    head: "Task",
    cell: (task) => html`
      <${Link} to=${path("dags", run.dag_id, "runs", run.run_id, "tasks", task.task_id)}>
        ${task.task_id}
      <//>
    `,
  },
  { head: "State before", cell: (task) => html`<${States} counts=${task.before} />` },
  { head: "State in this run", cell: (task) => html`<${States} counts=${task.after} />` },
  { head: "Duration before", right: true, cell: (task) => html`<${Duration} seconds=${task.seconds_before} />` },
  { head: "Duration in this run", right: true, cell: (task) => html`<${Duration} seconds=${task.seconds_after} />` },
  {
    head: "Change",
    right: true,
    cell: (task) => html`<${Change} before=${task.seconds_before} after=${task.seconds_after} />`,
  },
];

/** @param {{ counts: Record<string, number> }} props */
function States({ counts }) {
  const found = byState(counts);
  const total = found.reduce((sum, [, n]) => sum + n, 0);
  if (!total) return html`<span class="faint">not in this run</span>`;
  return html`
    <span class="row near">
      ${found.map(([name, n]) => html`
        <${State} name=${name} count=${total > 1 ? n : undefined} />
      `)}
    </span>
  `;
}

/**
 * How much longer or shorter, in words and percent; "the same" if the two durations read the same.
 * @param {number} before in seconds
 * @param {number} after in seconds
 */
export function changeWords(before, after) {
  if (duration(before) === duration(after)) return "the same";
  const by = after - before;
  const percent = before > 0 ? `, ${numeral(Math.abs(Math.round((by / before) * 100)))} %` : "";
  return `${duration(Math.abs(by))} ${by > 0 ? "longer" : "shorter"}${percent}`;
}

/** @param {{ before: number | null, after: number | null }} props */
function Change({ before, after }) {
  if (before === null || after === null) return html`<span class="faint">–</span>`;
  const isLong = after - before > 1 && after > before * 1.25;
  return html`<span class=${isLong ? "late nowrap" : "soft nowrap"}>${changeWords(before, after)}</span>`;
}
