// One scheduler: its properties, load and performance.
import { html } from "../../lib/html.js";
import { quantile } from "../../lib/figures.js";
import { counted, numeral } from "../../lib/names.js";
import { duration } from "../../lib/time.js";
import { Card, Facts, State, Tag, When } from "../../parts/basics.js";
import { Parts } from "../../parts/facts.js";

/** @typedef {import("../../lib/figures.js").Histogram} Histogram */

/**
 * The metrics of a scheduler as of its last heartbeat; the API has them without types.
 * @typedef {object} Figures
 * @property {Record<string, Histogram>} [histograms]
 * @property {Record<string, number>} [counters]
 * @property {Record<string, number>} [finished] attempts by state
 * @property {Record<string, number>} [waiting] task instances by pool
 * @property {Record<string, { open: number, open_async: number, engine?: Engine }>} [executor] its slots by executor
 * @property {Record<string, number>} [tasks] task instances by state
 * @property {number} [in_flight]
 * @property {number} [parallelism]
 * @property {number} [oldest_queued_seconds]
 * @property {number} [runs]
 * @property {{ files: number, dags: number, errors: number }} [parsing]
 *
 * @typedef {object} Engine what it sees of an engine's workers, and of those the first by name, slots and jobs
 * @property {number} workers
 * @property {number} slots
 * @property {Record<string, number>} queues
 * @property {[string, number, number][]} listed
 *
 * @typedef {Omit<Api["SchedulerResource"], "figures"> & { figures: Figures | null }} Scheduler
 */

const LOST = {
  lost_attempts: "attempts lost",
  takeovers: "takeovers",
  recoveries: "recoveries",
  stale_writes_refused: "stale writes refused",
  unknown_commits: "commits with unknown outcome",
  differences: "differences found",
  recounted: "rows corrected",
  watchers_stopped: "asset watchers stopped",
};

/**
 * @param {Scheduler} one
 * @param {string} name
 */
export const figure = (one, name) => one.figures?.histograms?.[name];

/** @type {Record<string, string>} */
const KINDS = { alive: "good", draining: "warn", stalled: "danger", dead: "danger" };

/** @param {Histogram | undefined} histogram */
const two = (histogram) =>
  histogram?.count ? html`
    <span class="tabular">
      ${duration(quantile(histogram, 0.5))} <span class="faint">p50</span> ·${" "}
      ${duration(quantile(histogram, 0.99))} <span class="faint">p99</span>
    </span>
  ` : html`
    <span class="faint">no data yet</span>
  `;

/**
 * `hue` is the colour of its partitions.
 * @param {{ one: Scheduler, hue: string }} props
 */
export function SchedulerCard({ one, hue }) {
  const figures = one.figures;
  const name = html`
    <span class="row near">
      <i class="dot" style=${{ background: `var(${hue})` }} />
      ${one.name}
    </span>
  `;
  return html`
    <${Card} title=${name} actions=${html`<${Tag} kind=${KINDS[one.status]}>${one.status}<//>`}>
      <div class="columns">
        <${Facts}
          rows=${[
            ["Host", `${one.hostname}, process ${one.pid}`],
            ["Version", one.version],
            [
              "Started",
              html`
                <${When} at=${one.started_at} /> <span class="faint">incarnation ${one.incarnation}</span>
              `,
            ],
            ["Lease", html`renewed ${duration(one.lease_age)} ago`],
            ["Executor", `${one.executor}, ${counted(one.slots, "slot")}`],
            ["Partitions", one.partitions],
            ["Load", html`<span title="task instance rows that it stores">${one.load.toFixed(1)} rows/s</span>`],
          ]}
        />
        ${figures ? html`
          <${Load} figures=${figures} />
        ` : html`
          <p class="soft">Its metrics appear with the next lease renewal.</p>
        `}
        ${figures?.histograms && html`<${Speed} figures=${figures} />`}
      </div>
    <//>
  `;
}

const none = () => html`<span class="faint">none</span>`;

/**
 * The load of a scheduler.
 * @param {{ figures: Figures }} props
 */
function Load({ figures: f }) {
  const waiting = Object.entries(f.waiting ?? {}).filter(([, n]) => n);
  const open = Object.entries(f.executor ?? {}).map(
    ([name, r]) => `${name}: ${r.open} and ${r.open_async} async`,
  );
  return html`
    <${Facts}
      rows=${[
        ["In flight", f.in_flight === undefined ? null : html`<${InFlight} figures=${f} />`],
        ["Task instances", f.tasks && html`<${Instances} tasks=${f.tasks} />`],
        [
          "Waiting for a slot",
          f.waiting && (waiting.map(([pool, n]) => `${numeral(n)} in pool ${pool}`).join(", ") || none()),
        ],
        ["Oldest queued", f.oldest_queued_seconds && duration(f.oldest_queued_seconds)],
        ["Open slots", open.join("; ")],
        ...Object.entries(f.executor ?? {}).flatMap(([name, r]) => (r.engine ? rowsOf(name, r.engine) : [])),
        ["Runs in memory", f.runs],
      ]}
    />
  `;
}

/**
 * The workers and queues of an engine.
 * @param {string} name
 * @param {Engine} engine
 */
function rowsOf(name, engine) {
  const workers = engine.listed.map(
    ([worker, slots, jobs]) => `${worker} (${counted(jobs, "job")}, ${counted(slots, "slot")})`,
  );
  const more = engine.workers > workers.length ? `, and ${engine.workers - workers.length} more` : "";
  const queues = Object.entries(engine.queues).map(([queue, length]) => `${queue}: ${length}`);
  return [
    [`Workers of ${name}`, workers.join(", ") + more || none()],
    ...(queues.length ? [[`Waiting in ${name}`, queues.join(", ")]] : []),
  ];
}

/** @param {{ figures: Figures }} props */
function InFlight({ figures: { in_flight = 0, parallelism = 0 } }) {
  const share = Math.min(in_flight / Math.max(parallelism, 1), 1);
  const words = `${in_flight} of ${parallelism}`;
  return html`
    <span class="row near">
      <${Parts} label=${words} parts=${[{ share, name: "state-running", words: "in flight" }]} />
      <span class="tabular">${words}</span>
    </span>
  `;
}

/** @param {{ tasks: Record<string, number> }} props */
function Instances({ tasks }) {
  const found = Object.entries(tasks).filter(([, n]) => n);
  return html`
    <span class="row">
      ${found.map(([state, n]) => html`
        <${State} name=${state} count=${n} />
      `)}
      ${!found.length && none()}
    </span>
  `;
}

/**
 * Latencies, parsing and problems of a scheduler.
 * @param {{ figures: Figures }} props
 */
function Speed({ figures: { histograms = {}, parsing, counters = {} } }) {
  const lost = Object.entries(LOST).filter(([name]) => counters[name]);
  return html`
    <${Facts}
      rows=${[
        ["Ready to started", two(histograms.task_lag)],
        ["Commit", two(histograms.journal_commit)],
        ["Critical section", two(histograms.critical_section)],
        ["Loop lag", two(histograms.loop_lag)],
        [
          "Parsing",
          parsing &&
            `${counted(parsing.files, "file")}, ${counted(parsing.dags, "DAG")}, ${parsing.errors} with errors`,
        ],
        ["Problems", lost.map(([name, words]) => `${counters[name]} ${words}`).join(", ") || none()],
      ]}
    />
  `;
}
