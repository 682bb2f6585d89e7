// The time segments of a try: scheduled, queued, running, deferred.
import { taskName } from "../../lib/names.js";
import { stateOf } from "../../lib/states.js";
import { duration } from "../../lib/time.js";

/**
 * A piece of a try; its times in ms.
 * @typedef {[state: string, from: number, to: number]} Piece
 *
 * A task instance with its name and tries.
 * @typedef {ReturnType<typeof rowsOf>[number]} Row
 *
 * @typedef {{ from: number, to: number }} Span
 */

/**
 * A timestamp in ms; null for none.
 * @param {string | null | undefined} text
 */
export const ms = (text) => (text ? Date.parse(text) : null);

/** @type {Record<string, number>} */
export const THIN = { scheduled: 4, queued: 4, deferred: 8 }; // bar heights in pixels while waiting; otherwise BAR

/**
 * The segments of a try: state, start and end in ms; unfinished ones extend to `now`.
 * @param {Api["Segment"]} one
 * @param {number} now in ms
 * @returns {Piece[]}
 */
export function segmentsOf(one, now) {
  const scheduled = ms(one.scheduled_at);
  const queued = ms(one.queued_at);
  const start = ms(one.start_date);
  const end = ms(one.end_date) ?? now;
  const deferred = one.deferred ?? [];
  /** @type {Piece[]} */
  const found = [];
  if (scheduled !== null && (queued ?? start ?? end) > scheduled)
    found.push(["scheduled", scheduled, queued ?? start ?? end]);
  if (queued !== null) found.push(["queued", queued, start ?? end]);
  let from = start ?? end;
  for (const { since, until } of start === null ? [] : deferred) {
    // it ran, waited for a trigger, and continued
    const began = Date.parse(since);
    if (began > from) found.push(["running", from, began]);
    from = ms(until) ?? end;
    found.push(["deferred", began, from]);
  }
  if (start !== null && (end > from || !deferred.length)) found.push([one.state ?? "running", from, end]);
  return found.filter(([, from, to]) => to >= from);
}

/**
 * The rows of a chart: `items` of the API's Gantt with names, and tries with their segments.
 * @param {Api["Bar"][]} items
 * @param {number} moment where unfinished segments end; 0: at the end of the run
 * @param {Api["RunResource"]} run
 */
export const rowsOf = (items, moment, run) =>
  items.map((item) => ({
    ...item,
    name: taskName(item),
    tries: item.tries.map((one) => {
      const end = moment || Date.parse(run.end_date ?? one.end_date ?? one.start_date ?? "0");
      return { ...one, segments: segmentsOf(one, end) };
    }),
  }));

/**
 * The start and end of a run including all tries; null if nothing has started.
 * @param {Row[]} rows
 * @param {Api["RunResource"]} run
 */
export function spanOf(rows, run) {
  const all = rows.flatMap((row) => row.tries.flatMap((one) => one.segments));
  const from = all.reduce((least, [, a]) => Math.min(least, a), ms(run.start_date) ?? Infinity);
  const to = all.reduce((most, [, , b]) => Math.max(most, b), ms(run.end_date) ?? 0);
  return Number.isFinite(from) ? { from, to: Math.max(to, from + 50) } : null;
}

/**
 * A row as lines of text: its name, then the latest tries.
 * @param {Row} row
 */
export function rowWords(row) {
  /** @param {Piece} segment */
  const segmentWords = ([kind, from, to]) => `, ${THIN[kind] ? kind : "ran"} ${duration((to - from) / 1000)}`;
  /** @param {Row["tries"][number]} one */
  const tryWords = (one) =>
    `try ${one.try_number}: ${stateOf(one.state).label}${one.segments.map(segmentWords).join("")}`;
  return [row.name, ...row.tries.slice(-4).map(tryWords)];
}
