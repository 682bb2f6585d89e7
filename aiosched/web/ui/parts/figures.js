// Figures over time: a range to choose, a resource that is read each minute, and values on the steps of the range.
import { html, useEffect } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";

const EVERY = 60_000; // ms: schedulers write figures once a minute
/** @type {Record<string, string>} */
const RANGES = { 1: "1 h", 24: "24 h", 168: "7 d" };
const FIRST = "24";

/** The chosen range in hours. */
export const chosenHours = () =>
  Number(query.value.hours && RANGES[query.value.hours] ? query.value.hours : FIRST);

/** Chooses the range. */
export const RangeChoice = () => html`
  <div class="row near" role="group" aria-label="Time range of the charts">
    ${Object.entries(RANGES).map(([hours, words]) => html`
      <button
        class=${`button small ${Number(hours) === chosenHours() ? "chosen" : "quiet"}`}
        aria-pressed=${Number(hours) === chosenHours()}
        onClick=${() => setQuery({ hours: hours === FIRST ? null : hours })}
      >
        ${words}
      </button>
    `)}
  </div>
`;

/**
 * Figures, read again each minute while the page is visible.
 * @template T
 * @param {string} path
 * @param {object} params
 * @returns {Resource<T>}
 */
export function useFigures(path, params) {
  /** @type {Resource<T>} */
  const found = useResource(path, params);
  useEffect(() => {
    const poll = setInterval(() => {
      if (!document.hidden) found.reload();
    }, EVERY);
    return () => clearInterval(poll);
  }, [found]);
  return found;
}

/**
 * The steps of a range in seconds, and what gives the values of a figure on them: null in a gap.
 * @template {{ at: string }} P
 * @param {{ since: string, until: string, step: number, points: P[] }} figures
 */
export function onSteps({ since, until, step, points }) {
  const first = Date.parse(since) / 1000;
  const times = Array.from({ length: (Date.parse(until) / 1000 - first) / step }, (_, n) => first + n * step);
  const places = new Map(points.map((point) => [Date.parse(point.at) / 1000, point]));
  /** @param {(point: P) => number | null} value */
  const values = (value) =>
    times.map((time) => {
      const point = places.get(time);
      return point ? value(point) : null;
    });
  return { times, values };
}
