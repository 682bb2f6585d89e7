// Charts of the fleet, or of one scheduler, over an hour, a day or a week.
import { html } from "../../lib/html.js";
import { bytes } from "../../lib/figures.js";
import { query, setQuery } from "../../lib/router.js";
import { Card, Empty, Shown } from "../../parts/basics.js";
import { Chart } from "../../parts/chart.js";
import { chosenHours, onSteps, RangeChoice, useFigures } from "../../parts/figures.js";
import { Filter } from "../../parts/form.js";

/** @typedef {Api["FigurePoint"]} Point */
/** @typedef {[name: string, colour: string, value: (point: Point) => number | null]} Drawn */

/** @type {{ label: string, seconds?: boolean, words?: (value: number) => string, lines: Drawn[] }[]} */
const CHARTS = [
  {
    label: "Task lag: ready to started",
    seconds: true,
    lines: [
      ["p50", "--state-running", (point) => point.lag_p50],
      ["p99", "--state-up_for_retry", (point) => point.lag_p99],
    ],
  },
  {
    label: "Tasks ended per second",
    lines: [["ended/s", "--state-success", (point) => point.ended_per_second]],
  },
  {
    label: "Task instances",
    lines: [
      ["waiting", "--state-scheduled", (point) => point.waiting],
      ["queued", "--state-queued", (point) => point.queued],
      ["running", "--state-running", (point) => point.running],
    ],
  },
  {
    label: "Commits: duration",
    seconds: true,
    lines: [
      ["p50", "--state-running", (point) => point.commit_p50],
      ["p99", "--state-up_for_retry", (point) => point.commit_p99],
    ],
  },
  {
    label: "Commits per second",
    lines: [["commits/s", "--state-success", (point) => point.commits_per_second]],
  },
  { label: "Loop lag", seconds: true, lines: [["p99", "--state-up_for_retry", (point) => point.loop_lag_p99]] },
  { label: "Memory", words: bytes, lines: [["resident", "--state-running", (point) => point.memory]] },
  {
    label: "Parsing per minute",
    seconds: true,
    lines: [["parsing", "--state-running", (point) => point.parsing]],
  },
];

/** @param {{ names: string[] }} props */
export function History({ names }) {
  const hours = chosenHours();
  const scheduler = query.value.scheduler;
  /** @type {Resource<Api["Figures"]>} */
  const found = useFigures("figures", { hours, scheduler });
  const known = scheduler && !names.includes(scheduler) ? [scheduler, ...names] : names;
  return html`
    <${Card}
      title="History"
      actions=${
        html`
          <${Filter}
            label="Scheduler"
            value=${scheduler}
            any="all schedulers"
            options=${known.map((name) => [name, name])}
            onText=${(/** @type {string} */ text) => setQuery({ scheduler: text })}
          />
          <${RangeChoice} />
        `
      }
    >
      <${Shown} of=${found}>
        ${(/** @type {Api["Figures"]} */ figures) => html`
          <${Charts} key=${`${hours} ${scheduler}`} figures=${figures} />
        `}
      <//>
    <//>
  `;
}

/** @param {{ figures: Api["Figures"] }} props */
function Charts({ figures }) {
  if (!figures.points.length) {
    return html`<${Empty} title="No figures yet">A scheduler writes them once a minute.<//>`;
  }
  const { times, values } = onSteps(figures);
  return html`
    <div class="columns">
      ${CHARTS.map(({ label, seconds, words, lines }) => html`
        <${Chart}
          key=${label}
          label=${label}
          seconds=${seconds}
          words=${words}
          gaps
          times=${times}
          lines=${lines.map(([name, colour, value]) => ({ name, colour, values: values(value) }))}
        />
      `)}
    </div>
  `;
}
