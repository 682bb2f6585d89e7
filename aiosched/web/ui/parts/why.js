// Why something is waiting or did not run: all gates in order, the holders of resources, and suggested commands.
import { html } from "../lib/html.js";
import { runName, taskName, taskPath } from "../lib/names.js";
import { useResource } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { duration } from "../lib/time.js";
import { Card, Failure, Link, Loading, When } from "./basics.js";
import { Cli } from "./dialog.js";

const VERDICTS = {
  ok: ["✓", "open"],
  wait: ["!", "closed"],
  never: ["✕", "blocked permanently"],
  unknown: ["?", "unknown"],
  "not-reached": ["–", "not reached"],
};

const HOLDS = ["queued", "running", "restarting", "shutdown", "deferred", "scheduled"];

/** @param {{ one: Api["WhyHolder"], gate: string }} props */
function Holder({ one, gate }) {
  const task = one.task_id ? { ...one, task_id: one.task_id } : null;
  const to = task ? taskPath(task) : path("dags", one.dag_id, "runs", one.run_id);
  const runs = HOLDS.includes(one.state);
  const late = runs && one.seconds !== null && one.usual_seconds && one.seconds > one.usual_seconds * 1.5;
  const details = runs
    ? [
        one.slots > 0 && gate.startsWith("pool") && `${one.slots} ${one.slots === 1 ? "slot" : "slots"}`,
        one.seconds !== null && html`<span class=${late ? "late" : ""}>for ${duration(one.seconds)}</span>`,
        one.usual_seconds !== null && `usually ${duration(one.usual_seconds)}`,
      ].filter(Boolean)
    : [stateOf(one.state).label];
  const link = html`
    <${Link} to=${to}>
      ${one.dag_id} · ${runName(one.run_id)}
      ${task && ` · ${taskName(task)}`}
    <//>
  `;
  return html`
    <li>
      ${one.dag_id ? link : one.label}
      <span class="soft tabular">
        ${details.map((part, i) => html`
          ${i > 0 && ", "}
          ${part}
        `)}
      </span>
    </li>
  `;
}

/**
 * The card for the `/why` of an API path; nothing if the server has no explanation. Patches of `kinds` reload it.
 * @param {{ of: string, params?: InstanceParams, kinds?: string[], concerns?: (patch: Patch) => boolean }} props
 */
export function WhyCard({ of, params, kinds = ["run", "task", "pool", "dag"], concerns }) {
  /** @type {Resource<Api["Why"]>} */
  const why = useResource(`${of}/why`, params, { kinds, concerns });
  if (why.error.value) {
    if (why.error.value.status === 404 || why.data.value) return null;
    return html`
      <${Card} title="Why">
        <${Failure} error=${why.error.value} retry=${why.reload} />
      <//>
    `;
  }
  if (!why.data.value)
    return html`
      <${Card} title="Why">
        <${Loading} lines=${3} />
      <//>
    `;
  return html`<${Answer} why=${why.data.value} />`;
}

/** @param {{ why: Api["Why"] }} props */
function Answer({ why }) {
  const { summary, gates, notes, commands, waiting_seconds } = why;
  const waits = waiting_seconds ? html`<span class="soft">waiting for ${duration(waiting_seconds)}</span>` : null;
  return html`
    <${Card} title="Why" class="card why" actions=${waits}>
      <div class="stack">
        <p class="summary">${summary}</p>
        ${gates.length > 0 && html`
          <ol class="gates">
            ${gates.map((gate) => html`
              <${Gate} gate=${gate} />
            `)}
          </ol>
        `}
        ${notes?.length > 0 && html`
          <ul class="notes" aria-label="Notes">
            ${notes.map((note) => html`
              <li>${note}</li>
            `)}
          </ul>
        `}
        <${Prospect} why=${why} />
        ${commands?.length > 0 && html`
          <details class="folded" open=${!matchMedia("(max-width: 640px)").matches}>
            <summary>What you can do</summary>
            <div class="stack tight">
              ${commands.map((line) => html`
                <${Cli} line=${line} />
              `)}
            </div>
          </details>
        `}
      </div>
    <//>
  `;
}

/** @param {{ gate: Api["WhyGate"] }} props */
function Gate({ gate }) {
  const [glyph, words] = VERDICTS[gate.verdict] || VERDICTS.unknown;
  return html`
    <li class=${gate.verdict}>
      <i aria-hidden="true">${glyph}</i>
      <b>${gate.name}</b>
      <span class="verdict">${words}</span>
      <span class="detail">
        ${gate.detail}
        ${gate.opens_at && html`
          ${" "}
          · opens <${When} at=${gate.opens_at} ago />
        `}
      </span>
      ${gate.holders?.length > 0 && html`
        <ul class="holders">
          ${gate.holders.map((one) => html`
            <${Holder} one=${one} gate=${gate.name} />
          `)}
        </ul>
      `}
    </li>
  `;
}

/**
 * When it may continue.
 * @param {{ why: Api["Why"] }} props
 */
function Prospect({ why: { rank, likely_free_at, earliest_start } }) {
  if (!rank && !likely_free_at && !earliest_start) return null;
  return html`
    <div class="row wide soft">
      ${rank && html`<span>queue position ${rank}</span>`}
      ${likely_free_at && html`
        <span>
          likely free <${When} at=${likely_free_at} ago />
        </span>
      `}
      ${earliest_start && html`
        <span>
          earliest start <${When} at=${earliest_start} ago />
        </span>
      `}
    </div>
  `;
}
