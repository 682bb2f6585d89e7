// All schedulers together: partition ownership and performance.
import { html } from "../../lib/html.js";
import { Card, Notice } from "../../parts/basics.js";
import { Chart } from "../../parts/chart.js";
import { SchedulerCard } from "./scheduler.js";

/** @typedef {import("../../lib/figures.js").Histogram} Histogram */
/** @typedef {import("./scheduler.js").Scheduler} Scheduler */

/**
 * A sample of all schedulers: the time in seconds, what they have measured since their start and since the last sample.
 * @typedef {{ at: number, lag: Histogram | null, commit: Histogram | null, done: number, p50: number | null,
 *   p99: number | null, rate: number | null }} Sample
 */

/** @typedef {{ version: string, missing: string | null }} Database */

export const EVERY = 5000; // milliseconds between polls; metrics are updated with each lease renewal
const HUES = ["--owner-0", "--owner-1", "--owner-2", "--owner-3", "--owner-4", "--owner-5"];
const PARTITIONS = 64;

/** @param {{ items: Scheduler[], database: Database | null, history: Sample[] }} props */
export function Fleet({ items, database, history }) {
  /** @type {(number | null)[]} */
  const owner = Array(PARTITIONS).fill(null);
  items.forEach((one, i) =>
    one.owned.forEach((partition) => {
      owner[partition] = i;
    }),
  );
  const orphans = owner.filter((o) => o === null || items[o].status === "dead").length;
  const alive = items.filter((one) => one.status !== "dead");
  return html`
    <div class="stack">
      ${!alive.length && html`
        <${Notice} kind="danger">
          No scheduler is alive: no tasks start. Start one with <code>aiosched serve</code>.
        <//>
      `}
      ${alive.length > 0 && orphans > 0 && html`
        <${Notice} kind="warn">
          ${orphans} of ${PARTITIONS} partitions have no live owner: their DAGs wait until another scheduler takes
          over, usually within seconds.
        <//>
      `}
      ${database?.missing && html`
        <${Notice} kind="warn">
          ${database.missing}. <code>aiosched doctor</code> says what to do.
        <//>
      `}
      <div class="columns">
        <${Partitions} items=${items} owner=${owner} orphans=${orphans} />
        <${Performance} history=${history} />
      </div>
      ${database && html`<p class="soft">The database is PostgreSQL ${database.version}.</p>`}
      ${items.map((one, i) => html`
        <${SchedulerCard} key=${one.incarnation} one=${one} hue=${HUES[i % HUES.length]} />
      `)}
    </div>
  `;
}

/**
 * `owner` is the number of the scheduler that owns each partition, null for none; `orphans` have no live owner.
 * @param {{ items: Scheduler[], owner: (number | null)[], orphans: number }} props
 */
function Partitions({ items, owner, orphans }) {
  return html`
    <${Card}
      title="Partitions"
      actions=${
        html`<span class="soft">
          ${PARTITIONS - orphans} of ${PARTITIONS} owned
        </span>`
      }
    >
      <div
        class="cells"
        role="img"
        aria-label=${items.map((one) => `${one.name} owns ${one.partitions}`).join(", ")}
      >
        ${owner.map((o, n) => html`
          <i
            class=${o === null ? "none" : ""}
            style=${o === null ? undefined : { background: `var(${HUES[o % HUES.length]})` }}
            title=${`partition ${n}: ${o === null ? "unowned" : items[o].name}`}
          />
        `)}
      </div>
      <div class="row wide legend">
        ${items.map((one, i) => html`
          <span class="row near">
            <i style=${{ background: `var(${HUES[i % HUES.length]})` }} />
            ${one.name}${" "}
            <span class="faint tabular">
              ${one.partitions}, ${one.load.toFixed(1)} rows/s
            </span>
          </span>
        `)}
      </div>
    <//>
  `;
}

/** @param {{ history: Sample[] }} props */
function Performance({ history }) {
  const times = history.map((one) => one.at);
  return html`
    <${Card}
      title="Live (since you opened this page)"
      actions=${html`<span class="faint">every ${EVERY / 1000} s</span>`}
    >
      ${times.length > 1 ? html`
        <div class="stack">
          <${Chart}
            label="Ready to started"
            seconds
            times=${times}
            lines=${[
              { name: "p50", colour: "--state-running", values: history.map((h) => h.p50) },
              { name: "p99", colour: "--state-up_for_retry", values: history.map((h) => h.p99) },
            ]}
          />
          <${Chart}
            label="Attempts ended per second"
            times=${times}
            lines=${[{ name: "ended/s", colour: "--state-success", values: history.map((h) => h.rate) }]}
          />
        </div>
      ` : html`
        <p class="soft">Charts appear with the next update, in a few seconds.</p>
      `}
    <//>
  `;
}
