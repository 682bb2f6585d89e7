// The tries of a task instance and their logs.
import { html } from "../../lib/html.js";
import { here, href, query } from "../../lib/router.js";
import { stateOf } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, State, When } from "../../parts/basics.js";
import { Folded } from "../../parts/facts.js";
import { LogView } from "../../parts/log/view.js";

const ACTIVE = ["running", "restarting", "shutdown"]; // states in which logs are written

/**
 * @param {{ task: Api["TaskDetails"], base: string, params: InstanceParams, tries: Api["Try"][], name: string }} props
 */
export function Log({ task, base, params, tries, name }) {
  const numbers = [...new Set([...tries.map((t) => t.try_number), ...task.logs])]
    .filter((n) => n > 0)
    .sort((a, b) => a - b);
  if (!numbers.length)
    return html`
      <${Card}>
        <${Empty} title="No tries yet">The log appears here once the first try starts.<//>
      <//>
    `;
  const chosen = Number(query.value.try) || numbers.at(-1);
  const one = tries.find((t) => t.try_number === chosen);
  const running = chosen === task.try_number && ACTIVE.includes(task.state);
  return html`
    <div class="stack tight">
      ${numbers.length > 1 && html`<${Tries} numbers=${numbers} tries=${tries} chosen=${chosen} params=${params} />`}
      ${one && html`<${TryFacts} one=${one} task=${task} />`}
      ${one?.details && html`<${Folded} title="Traceback" text=${one.details} />`}
      <${Card} plain>
        <${LogView}
          key=${chosen}
          path=${`${base}/logs/${chosen}`}
          params=${params}
          name=${`${name}.try-${chosen}.log`}
          running=${running}
          failed=${one?.state === "failed" || one?.state === "up_for_retry"}
        />
      <//>
    </div>
  `;
}

/**
 * Links that select a try.
 * @param {{ numbers: number[], tries: Api["Try"][], chosen: number, params: InstanceParams }} props
 */
function Tries({ numbers, tries, chosen, params }) {
  /** @param {number} n */
  const address = (n) =>
    href(
      here.value.path +
        "?" +
        new URLSearchParams(
          Object.entries({ ...params, try: n }).map(([name, value]) => [name, String(value)]),
        ),
    );
  /** @param {number} n */
  const stateOfTry = (n) => tries.find((each) => each.try_number === n)?.state;
  return html`
    <nav class="choices row" aria-label="Tries">
      ${numbers.map((n) => html`
        <a
          class=${n === chosen ? "choice on" : "choice"}
          aria-current=${n === chosen ? "page" : undefined}
          href=${address(n)}
          title=${stateOf(stateOfTry(n)).label}
        >
          <${State} name=${stateOfTry(n)} bare /> Try ${n}
        </a>
      `)}
    </nav>
  `;
}

/** @param {{ one: Api["Try"], task: Api["TaskDetails"] }} props */
function TryFacts({ one, task }) {
  return html`
    <div class="row wide soft">
      ${one.start_date && html`
        <span>
          started <${When} at=${one.start_date} />
        </span>
        <span class="tabular">${duration(secondsBetween(one.start_date, one.end_date))}</span>
      `}
      ${one.hostname && html`
        <span>
          on ${one.hostname}
          ${one.pid ? `, process ${one.pid}` : ""}
        </span>
      `}
      ${one.source_hash && html`<${Source} one=${one} dagId=${task.dag_id} />`}
      ${one.reason && one.reason !== task.reason && html`<span>${one.reason}</span>`}
    </div>
  `;
}

/**
 * The code that a try ran.
 * @param {{ one: Api["Try"], dagId: string }} props
 */
function Source({ one, dagId }) {
  const to = `/dags/${encodeURIComponent(dagId)}?tab=code&version=${one.version}`;
  const version = one.version ? html`<${Link} to=${to}>version ${one.version}<//>` : "an unstored version";
  return html`
    <span class="sentence">
      code of ${version}, source <code>${one.source_hash}</code>
    </span>
  `;
}
