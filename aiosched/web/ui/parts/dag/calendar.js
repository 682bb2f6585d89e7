// The calendar: the days of a year with their runs; days with upcoming runs are outlined.
import { serverNow } from "../../lib/freshness.js";
import { html, useEffect, useRef } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { here, href, query, setQuery } from "../../lib/router.js";
import { byState, stateOf } from "../../lib/states.js";
import { Card, Shown, State } from "../basics.js";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const DAY = 86_400_000;

/** @param {number} time */
const key = (time) => new Date(time).toISOString().slice(0, 10);

/** @param {{ dagId: string }} props */
export function CalendarTab({ dagId }) {
  const thisYear = new Date(serverNow()).getUTCFullYear();
  const year = Number(query.value.year) || thisYear;
  /** @type {Resource<Api["Calendar"]>} */
  const calendar = useResource(
    at("dags", dagId, "calendar"),
    { year },
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  /** @param {number} by */
  const turn = (by) => setQuery({ year: year + by === thisYear ? null : year + by });
  return html`
    <${Card}
      title=${String(year)}
      actions=${
        html`
          <button class="button small" onClick=${() => turn(-1)}>
            ‹ ${year - 1}
          </button>
          <button class="button small" onClick=${() => turn(1)}>
            ${year + 1} ›
          </button>
        `
      }
    >
      <${Shown} of=${calendar}>${(data) => html`<${Year} dagId=${dagId} year=${year} days=${data.days} />`}<//>
    <//>
  `;
}

/**
 * @param {string} day
 * @param {Api["Day"] | undefined} known
 */
const words = (day, known) => {
  if (!known) return `${day}: no runs`;
  const total = totalOf(known);
  const counts = byState(known.counts).map(
    ([state, n]) => `${n} ${stateOf(state).label}${n < total ? ` (${Math.round((n / total) * 100)} %)` : ""}`,
  );
  return `${day}: ${[...counts, known.coming && `${known.coming} upcoming`].filter(Boolean).join(", ")}`;
};

/** @param {Api["Day"] | undefined} day */
const totalOf = (day) => Object.values(day?.counts ?? {}).reduce((sum, n) => sum + n, 0);

/** @param {{ year: number, days: Api["Day"][] }} props */
function Year({ year, days }) {
  const known = new Map(days.map((day) => [day.date, day]));
  const first = Date.UTC(year, 0, 1);
  const count = (Date.UTC(year + 1, 0, 1) - first) / DAY;
  const lead = (new Date(first).getUTCDay() + 6) % 7;
  const most = Math.max(1, ...days.map(totalOf));
  /** @param {number} index */
  const weekOf = (index) => Math.floor((index + lead) / 7) + 2;
  const today = key(serverNow());
  const cells = Array.from({ length: count }, (_, index) => {
    const time = first + index * DAY;
    const day = key(time);
    const place = { gridColumn: weekOf(index), gridRow: ((index + lead) % 7) + 2 };
    const to = `${here.value.path}?tab=runs&from=${day}&to=${day}`;
    const isToday = day === today;
    return html`<${Day} key=${day} ...${{ day, known: known.get(day), most, place, to, isToday }} />`;
  });
  const months = MONTHS.map((name, i) => html`
    <span
      class="month"
      style=${{ gridRow: 1, gridColumn: `${weekOf((Date.UTC(year, i, 1) - first) / DAY)} / span 4` }}
    >
      ${name}
    </span>
  `);
  const weekdays = ["Mon", "Wed", "Fri", "Sun"].map((name, i) => html`
    <span class="weekday" style=${{ gridColumn: 1, gridRow: i * 2 + 2 }}>
      ${name}
    </span>
  `);
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  useEffect(() => {
    const observer = new ResizeObserver(([{ target }]) => {
      const now = /** @type {HTMLElement | null} */ (target.querySelector(".today"));
      if (now) target.scrollLeft = now.offsetLeft - target.clientWidth * 0.75;
    });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [year]);
  return html`
    <div class="stack">
      <div class="scroll" ref=${box} tabindex="0" role="group" aria-label=${`Days of ${year}`}>
        <div class="calendar">
          ${months}
          ${weekdays}
          ${cells}
        </div>
      </div>
      <${Legend} />
    </div>
  `;
}

/**
 * The states of a day, each as high as its share of the runs: the most urgent one at the bottom.
 * @param {Record<string, number>} counts
 * @param {number} total
 * @param {number} strength in percent
 */
function shares(counts, total, strength) {
  let from = 0;
  const stops = byState(counts).map(([state, n]) => {
    const colour = `color-mix(in srgb, var(--state-${state}) ${strength}%, var(--surface))`;
    const start = from;
    from += (n / total) * 100;
    return `${colour} ${start}% ${from}%`;
  });
  return `linear-gradient(to top, ${stops.join(", ")})`;
}

/**
 * The glyph of the state of most of the runs; none if they succeeded.
 * @param {Record<string, number>} counts
 * @param {number} total
 */
function glyphOf(counts, total) {
  const most = byState(counts).find(([, n]) => n * 2 > total)?.[0];
  return !most || most === "success" ? "" : stateOf(most).glyph;
}

/**
 * A day; `most` is the largest number of runs of a day, which has the strongest colour; `to` is where its runs are.
 * @param {{ day: string, known: Api["Day"] | undefined, most: number, place: object, to: string,
 *   isToday: boolean }} props
 */
function Day({ day, known, most, place, to, isToday }) {
  const total = totalOf(known);
  const label = words(day, known);
  const now = isToday ? "today" : "";
  if (!known || !total)
    return html`<span class=${`day ${known?.coming ? "coming" : ""} ${now}`} style=${place} title=${label} />`;
  const strength = 45 + Math.round((total / most) * 55);
  return html`
    <a
      class=${`day has ${now}`}
      style=${{ ...place, "--c": shares(known.counts, total, strength) }}
      title=${label}
      aria-label=${label}
      href=${href(to)}
    >
      ${glyphOf(known.counts, total)}
    </a>
  `;
}

const Legend = () => html`
  <div class="row soft">
    ${["success", "failed", "running", "queued"].map((name) => html`
      <${State} name=${name} />
    `)}
    <span class="row">
      <span class="day coming" />
      upcoming
    </span>
    <span class="faint">Days are in UTC. Height: the share of a state. Darker: more runs.</span>
  </div>
`;
