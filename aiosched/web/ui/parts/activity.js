// The runs of the last 24 hours as bars, an hour each, and the errors of those that failed; each leads to its list.
import { html, useEffect } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { instant } from "../lib/time.js";
import { Card, Link, Shown } from "./basics.js";

const EVERY = 60_000; // ms: patches would make it read anew all the time
const STATES = ["failed", "success", "running", "queued"]; // from the bottom to the top of a bar

export function ActivityCards() {
  /** @type {Resource<Api["Activity"]>} */
  const activity = useResource("activity");
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && activity.reload(), EVERY);
    return () => clearInterval(timer);
  }, [activity]);
  return html`
    <${Shown} of=${activity} lines=${3}>
      ${(/** @type {Api["Activity"]} */ data) => html`
        <${Histogram} data=${data} />
        ${data.errors.length > 0 && html`<${Errors} errors=${data.errors} names=${data.dag_display_names} />`}
      `}
    <//>
  `;
}

/** @param {string} state */
const runsIn = (state) =>
  ["running", "queued"].includes(state)
    ? `/runs?state=${state}`
    : `/runs?state=${state}&time=24h&order=-end_date`;

/** @param {{ data: Api["Activity"] }} props */
function Histogram({ data: { hours, complete } }) {
  /** @param {Record<string, number>} states */
  const sum = (states) => Object.values(states).reduce((all, one) => all + one, 0);
  const highest = Math.max(...hours.map((hour) => sum(hour.states)), 1);
  const totals = STATES.map((state) => ({
    state,
    number: hours.reduce((n, h) => n + (h.states[state] ?? 0), 0),
  }));
  const legend = totals
    .filter((one) => one.number)
    .map(({ state, number }) => html`
      <${Link} to=${runsIn(state)} class="legend" style=${{ "--c": `var(--state-${state})` }}>
        <i aria-hidden="true" />
        ${complete ? "" : "at least "}
        ${number} ${stateOf(state).label}
      <//>
    `);
  return html`
    <${Card}
      title="Runs in the last 24 hours"
      actions=${legend.length ? legend : html`<span class="soft">none</span>`}
    >
      <ol class="hours" aria-label="Runs by hour">
        ${hours.map(({ at, states }) => html`
          <li key=${at}>
            <${Hour} at=${at} states=${states} highest=${highest} />
          </li>
        `)}
      </ol>
    <//>
  `;
}

/** @param {{ at: string, states: Record<string, number>, highest: number }} props */
function Hour({ at, states, highest }) {
  const shown = STATES.filter((state) => states[state]);
  const words = shown.map((state) => `${states[state]} ${stateOf(state).label}`).join(", ") || "no runs";
  const time = instant(at).slice(0, 16);
  const label = `${time}: ${words}`;
  return html`
    <span class="hour" role="img" title=${label} aria-label=${label}>
      ${shown.map((state) => html`
        <span
          class=${state}
          style=${{
            "--c": `var(--state-${state})`,
            height: `${Math.max((states[state] / highest) * 72, 3)}px`,
          }}
        />
      `)}
    </span>
    <time class="faint" datetime=${at} aria-hidden="true">
      ${time.slice(11, 13)}
    </time>
  `;
}

/** @param {{ errors: Api["GroupedError"][], names: Record<string, string> }} props */
const Errors = ({ errors, names }) => html`
  <${Card}
    title="Failures by error"
    aria-label="Failures by error"
    plain
    actions=${html`<span class="faint">last 24 hours</span>`}
  >
    <ul class="attention">
      ${errors.map((one) => html`
        <li key=${`${one.run_id} ${one.task_id} ${one.words}`}>
          <b class="tabular">${one.number} ×</b>
          <span class="what">
            <code>${one.words ?? "no error text"}</code>
            <span class="soft">
              ${" "}
              in${" "}
              ${one.dags
                .slice(0, 3)
                .map((dag) => names[dag] ?? dag)
                .join(", ")}
              ${one.dags.length > 3 ? " …" : ""}
            </span>
          </span>
          <${Link} class="button small" to=${newest(one)}>
            Newest
          <//>
          ${one.search && html`
            <${Link}
              class="button small"
              to=${`/task-instances?state=failed&time=24h&reason=${encodeURIComponent(one.search)}`}
            >
              View all
            <//>
          `}
        </li>
      `)}
    </ul>
  <//>
`;

/** @param {Api["GroupedError"]} one */
const newest = ({ dag_id, run_id, task_id, map_index }) =>
  path("dags", dag_id, "runs", run_id, "tasks", task_id) + (map_index >= 0 ? `?map_index=${map_index}` : "");
