// Trends of a DAG: duration, lateness and retries of its last runs or of one task, and the usual times of tasks.
import { html } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { go, path, query, setQuery } from "../../lib/router.js";
import { duration } from "../../lib/time.js";
import { Card, Duration, Empty, Link, Shown, State, When } from "../basics.js";
import { Table } from "../table.js";
import { TrendChart } from "./trend_chart.js";

const LENGTHS = ["30", "100", "365"];

/** @param {{ dagId: string }} props */
export function TrendsTab({ dagId }) {
  const { runs = LENGTHS[0], task } = query.value;
  /** @type {Resource<Api["Trends"]>} */
  const found = useResource(
    at("dags", dagId, "trends"),
    { runs, task_id: task },
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  return html`
    <div class="stack">
      <${Filters} runs=${runs} task=${task} tasks=${found.data.value?.tasks ?? []} />
      <${Shown} of=${found} lines=${8}>
        ${(/** @type {Api["Trends"]} */ trends) =>
          trends.points.length ? html`
            <${Charts} dagId=${dagId} trends=${trends} />
            <${Outliers} dagId=${dagId} points=${trends.points.filter((one) => one.is_outlier)} />
            <${Tasks} tasks=${trends.tasks} />
          ` : html`
            <${Card}>
              <${Empty} title="No runs yet">Trends appear with the first runs.<//>
            <//>
          `
        }
      <//>
    </div>
  `;
}

/** @param {{ runs: string, task: string | undefined, tasks: Api["TaskTrend"][] }} props */
const Filters = ({ runs, task, tasks }) => html`
  <div class="row">
    <div class="row near" role="group" aria-label="How many runs">
      ${LENGTHS.map((n) => html`
        <button
          class=${n === runs ? "button small chosen" : "button small"}
          aria-pressed=${n === runs}
          onClick=${() => setQuery({ runs: n === LENGTHS[0] ? null : n })}
        >
          ${n} runs
        </button>
      `)}
    </div>
    <label class="row soft">
      Of${" "}
      <select
        class="input picker"
        value=${task ?? ""}
        onChange=${(/** @type {FieldEvent} */ e) => setQuery({ task: e.target.value })}
      >
        <option value="">the whole run</option>
        ${task && !tasks.some((one) => one.task_id === task) && html`<option value=${task}>${task}</option>`}
        ${tasks.map((one) => html`
          <option value=${one.task_id}>${one.task_id}</option>
        `)}
      </select>
    </label>
  </div>
`;

/** @param {number[]} numbers */
const middle = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/**
 * Whether it is getting slower: the median of the last third of the runs, beside that of the runs before.
 * @param {(number | null)[]} seconds
 */
function trendWords(seconds) {
  const known = /** @type {number[]} */ (seconds.filter((one) => one !== null));
  const few = Math.floor(known.length / 3);
  if (few < 3) return "Too few runs to tell whether it is getting slower.";
  const [before, after] = [middle(known.slice(0, -few)), middle(known.slice(-few))];
  const change = before > 0 ? Math.round((after / before - 1) * 100) : 0;
  const words = change ? `${Math.abs(change)} % ${change > 0 ? "longer" : "shorter"} than` : "as long as";
  const rest = `the ${known.length - few} runs before (${duration(before)})`;
  return `The last ${few} runs took ${duration(after)} (median), ${words} ${rest}.`;
}

/** @param {{ dagId: string, trends: Api["Trends"] }} props */
function Charts({ dagId, trends: { task_id: taskId, points, p50, p95 } }) {
  const dates = points.map((one) => one.at);
  /** @param {number} place */
  const onPick = (place) => {
    const run = path("dags", dagId, "runs", points[place].run_id);
    go(taskId ? `${run}/tasks/${encodeURIComponent(taskId)}` : run);
  };
  /** @param {(point: Api["TrendPoint"]) => unknown} wanted */
  const some = (wanted) => points.map((one) => (wanted(one) ? one.seconds : null));
  /** @param {number | null} value */
  const level = (value) => points.map(() => value);
  /** @type {import("./trend_chart.js").Series[]} */
  const durations = [
    { name: "duration", colour: "--state-running", kind: "line", values: points.map((one) => one.seconds) },
    { name: "p50", colour: "--good", kind: "level", values: level(p50) },
    { name: "p95", colour: "--warn", kind: "level", values: level(p95) },
    { name: "failed", colour: "--state-failed", kind: "points", values: some((one) => one.state === "failed") },
    { name: "outlier", colour: "--state-up_for_retry", kind: "points", values: some((one) => one.is_outlier) },
  ];
  /** @type {import("./trend_chart.js").Series[]} */
  const late = [
    { name: "started after", colour: "--state-queued", kind: "line", values: points.map((one) => one.late) },
    { name: "ended after", colour: "--state-success", kind: "line", values: points.map((one) => one.landed) },
  ];
  const retries = points.map((one) => one.retries);
  return html`
    <${Card} title=${taskId ? `Duration of ${taskId}` : "Duration of the run"}>
      <p class="soft">
        Usually ${p50 === null ? "–" : duration(p50)} (p50), 95 % within ${p95 === null ? "–" : duration(p95)}${" "}
        (p95). Click a run to open it.
      </p>
      <p>${trendWords(points.map((one) => one.seconds))}</p>
      <${TrendChart} label="Duration" dates=${dates} series=${durations} onPick=${onPick} />
    <//>
    <div class="columns">
      <${Card} title="Lateness">
        <${TrendChart} label="After the run was due" dates=${dates} series=${late} onPick=${onPick} />
      <//>
      <${Card} title="Retries">
        <${TrendChart}
          label="Retries in each run"
          count
          dates=${dates}
          series=${[{ name: "retries", colour: "--state-up_for_retry", kind: "line", values: retries }]}
          onPick=${onPick}
        />
      <//>
    </div>
  `;
}

/** @param {{ dagId: string, points: Api["TrendPoint"][] }} props */
function Outliers({ dagId, points }) {
  if (!points.length) return null;
  return html`
    <${Card} title="Unusually long">
      <ul class="plain">
        ${points.toReversed().map((one) => html`
          <li class="row" key=${one.run_id}>
            <${State} name=${one.state} bare />
            <${Link} to=${path("dags", dagId, "runs", one.run_id)}>${one.run_id}<//>
            <${When} at=${one.at} />
            <b>
              <${Duration} seconds=${one.seconds} />
            </b>
          </li>
        `)}
      </ul>
    <//>
  `;
}

/** @param {{ tasks: Api["TaskTrend"][] }} props */
const Tasks = ({ tasks }) => html`
  <${Card} title="Tasks, slowest first" plain>
    <${Table}
      caption="Usual durations of the tasks"
      columns=${TASKS}
      items=${tasks}
      keyOf=${(/** @type {Api["TaskTrend"]} */ task) => task.task_id}
      empty=${html`<${Empty} title="No task has run yet" />`}
    />
  <//>
`;

/** @type {Column<Api["TaskTrend"]>[]} */
const TASKS = [
  {
    head: "Task",
    cell: (task) => html`
      <button class="button quiet small" onClick=${() => setQuery({ task: task.task_id }, { push: true })}>
        ${task.task_id}
      </button>
    `,
  },
  { head: "p50", right: true, cell: (task) => html`<${Duration} seconds=${task.p50} />` },
  { head: "p95", right: true, cell: (task) => html`<${Duration} seconds=${task.p95} />` },
  { head: "In runs", right: true, cell: (task) => task.runs },
  { head: "Failed", right: true, cell: (task) => task.failed || "" },
  { head: "Retries", right: true, cell: (task) => task.retries || "" },
];
