// A chart of a pool's slots and of what waited for them.
import { html } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { Empty, Failure, Loading } from "../../parts/basics.js";
import { Chart } from "../../parts/chart.js";
import { chosenHours, onSteps, RangeChoice, useFigures } from "../../parts/figures.js";

/** @param {{ name: string }} props */
export function PoolHistory({ name }) {
  const hours = chosenHours();
  /** @type {Resource<Api["PoolHistory"]>} */
  const found = useFigures(`${at("pools", name)}/figures`, { hours });
  return html`
    <div class="stack">
      <div class="row apart">
        <h3>History</h3>
        <${RangeChoice} />
      </div>
      ${found.error.value ? html`
        <${Failure} error=${found.error.value} retry=${found.reload} />
      ` : !found.data.value ? html`
        <${Loading} lines=${2} />
      ` : html`
        <${Slots} key=${hours} figures=${found.data.value} />
      `}
    </div>
  `;
}

/** @param {{ figures: Api["PoolHistory"] }} props */
function Slots({ figures }) {
  if (!figures.points.length) {
    return html`<${Empty} title="No figures yet">A scheduler writes them once a minute.<//>`;
  }
  const { times, values } = onSteps(figures);
  /** @param {string} name @param {string} colour @param {(point: Api["PoolFigurePoint"]) => number | null} value */
  const line = (name, colour, value) => ({ name, colour, values: values(value) });
  return html`
    <div class="columns">
      <${Chart}
        label="Slots"
        gaps
        times=${times}
        lines=${[
          line("used", "--state-running", (point) => point.used),
          line("open", "--state-success", (point) => point.open),
        ]}
      />
      <${Chart}
        label="Queue"
        gaps
        times=${times}
        lines=${[
          line("slots of queued tasks", "--state-queued", (point) => point.queued),
          line("tasks waiting", "--state-scheduled", (point) => point.waiting),
        ]}
      />
    </div>
  `;
}
