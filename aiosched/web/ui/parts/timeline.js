// Recent and upcoming runs on a timeline, one lane per DAG.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { href, path, query, setQuery } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { duration, instant, now, roundInstants, secondsBetween, zone } from "../lib/time.js";
import { Card, Empty, Link, Shown } from "./basics.js";

/** @type {Record<string, string>} */
const SPANS = { 1: "1 h", 6: "6 h", 24: "24 h" };

const LANES = 14;

const LABEL = 10; // the width of a time beside its run, in percent, on a phone

const HOUR = 3_600_000;

export function Timeline() {
  const hours = SPANS[query.value.hours] ? Number(query.value.hours) : 6;
  const minute = Math.floor(now.value / 60_000) * 60_000;
  const from = minute - hours * HOUR;
  const to = minute + (hours / 2) * HOUR;
  /** @type {Ref<Api["Timeline"] | null>} */
  const latest = useRef(null);
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  /** @type {Resource<Api["Timeline"]>} */
  const found = useResource(
    "timeline",
    { since: new Date(from).toISOString(), until: new Date(to).toISOString(), limit: 1000 },
    {
      kinds: ["run"],
      onUpdate: (data) => {
        timer.current ??= setTimeout(() => {
          timer.current = undefined;
          found.reload();
        }, 2000);
        return data;
      },
    },
  );
  useEffect(() => () => clearTimeout(timer.current), []);
  if (found.data.value) latest.current = found.data.value;
  const rangeButtons = html`
    <div class="row" role="group" aria-label="Time range">
      ${Object.entries(SPANS).map(([key, words]) => html`
        <button
          class=${`button small ${Number(key) === hours ? "chosen" : "quiet"}`}
          aria-pressed=${Number(key) === hours ? "true" : "false"}
          onClick=${() => setQuery({ hours: key === "6" ? null : key })}
        >
          ${words}
        </button>
      `)}
    </div>
  `;
  return html`
    <${Card} title="Recent and upcoming runs" actions=${rangeButtons}>
      ${latest.current ? html`
        <${Lanes} data=${latest.current} from=${from} to=${to} />
      ` : html`
        <${Shown} of=${found} lines=${6}>
          ${() => null}
        <//>
      `}
    <//>
  `;
}

/**
 * @typedef {Api["TimelineRun"] & { start_date: string }} StartedRun
 *
 * The runs of a DAG, and those to come.
 * @typedef {{ dagId: string, name: string, runs: StartedRun[], coming: Api["TimelineComing"][] }} Lane
 */

/**
 * One lane per DAG that has runs in the range.
 * @param {Api["Timeline"]} timeline
 */
function lanesOf({ runs, coming, dag_display_names: names }) {
  const lanes = /** @type {FullMap<string, Lane>} */ (new Map());
  /** @param {string} dagId */
  const lane = (dagId) => {
    if (!lanes.has(dagId)) lanes.set(dagId, { dagId, name: names[dagId] ?? dagId, runs: [], coming: [] });
    return lanes.get(dagId);
  };
  for (const run of runs) if (run.start_date) lane(run.dag_id).runs.push(/** @type {StartedRun} */ (run));
  for (const one of coming) lane(one.dag_id).coming.push(one);
  return [...lanes.values()];
}

/**
 * @param {string} name  of the DAG
 * @param {StartedRun} run
 */
function runWords(name, run) {
  const took = run.end_date ? `, took ${duration(secondsBetween(run.start_date, run.end_date))}` : "";
  return `${name}: ${stateOf(run.state).label}, ${instant(run.start_date)}${took}`;
}

/**
 * @param {string} name  of the DAG
 * @param {Api["TimelineComing"]} one
 */
const comingWords = (name, one) => `${name}: scheduled for ${instant(one.run_after)}`;

/** @param {{ data: Api["Timeline"], from: number, to: number }} props */
function Lanes({ data, from, to }) {
  const [all, setAll] = useState(false);
  const lanes = lanesOf(data);
  const shown = all ? lanes : lanes.slice(0, LANES);
  if (!lanes.length)
    return html`
      <${Empty} title="No recent or upcoming runs">Choose a longer time range, or trigger a DAG.<//>
    `;
  /** @param {number} time */
  const share = (time) => Math.max(0, Math.min(100, ((time - from) / (to - from)) * 100));
  const utc = zone.value;
  const ticks = roundInstants(from, to - (to - from) / 12, 6); // the last one has room for its words
  return html`
    <div class="timeline" key=${utc}>
      <${Axis} times=${ticks} share=${share} />
      ${shown.map((lane) => html`
        <${LaneRow} key=${lane.dagId} lane=${lane} share=${share} />
      `)}
      <div class="nowline" aria-hidden="true">
        <div>
          <span style=${{ left: `${share(now.value)}%` }} />
        </div>
      </div>
      ${lanes.length > LANES && html`
        <button class="button small quiet" onClick=${() => setAll(!all)}>
          ${all ? "Show fewer" : `Show ${lanes.length - LANES} more DAGs`}
        </button>
      `}
    </div>
  `;
}

/**
 * The times below which runs are; `share` is the place of a time, in percent.
 * @param {{ times: number[], share: (time: number) => number }} props
 */
const Axis = ({ times, share }) => html`
  <div class="lane axis" aria-hidden="true">
    <span />
    <div>
      ${times.map((time) => html`
        <time style=${{ left: `${share(time)}%` }}>${instant(time).slice(11, 16)}</time>
      `)}
    </div>
  </div>
`;

/** @param {{ lane: Lane, share: (time: number) => number }} props */
function LaneRow({ lane, share }) {
  const [next, after = 100 + LABEL] = lane.coming.map((one) => share(Date.parse(one.run_after)));
  const hasRoom = next !== undefined && after - next > LABEL;
  return html`
    <div class="lane">
      <${Link} class="clip" to=${path("dags", lane.dagId)} title=${lane.dagId}>
        ${lane.name}
      <//>
      <div>
        ${lane.runs.map((run) => {
          const start = share(Date.parse(run.start_date));
          const end = share(run.end_date ? Date.parse(run.end_date) : now.value);
          return html`
            <a
              key=${run.run_id}
              class="run"
              href=${href(path("dags", run.dag_id, "runs", run.run_id))}
              title=${runWords(lane.name, run)}
              aria-label=${runWords(lane.name, run)}
              style=${{
                "--c": `var(--state-${run.state})`,
                left: `${start}%`,
                width: `max(7px, ${end - start}%)`,
              }}
            >
              <span aria-hidden="true">
                ${end - start > 1.2 || run.state === "failed" ? stateOf(run.state).glyph : ""}
              </span>
            </a>
          `;
        })}
        ${lane.coming.map((one) => html`
          <span
            key=${one.run_after}
            class="coming"
            role="img"
            aria-label=${comingWords(lane.name, one)}
            title=${comingWords(lane.name, one)}
            style=${{ left: `${share(Date.parse(one.run_after))}%` }}
          />
        `)}
        ${hasRoom && html`
          <time class="coming-at" style=${{ left: `${next}%` }}>
            ${instant(lane.coming[0].run_after).slice(11, 16)}
          </time>
        `}
      </div>
    </div>
  `;
}
