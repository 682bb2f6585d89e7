// The time segments of a try: scheduled, queued, running, deferred.
import { numeral, taskName } from "../../lib/names.js";
import { byState, stateOf } from "../../lib/states.js";
import { duration } from "../../lib/time.js";
import { visibleRows } from "../grid/model.js";

/**
 * A piece of a try; its times in ms.
 * @typedef {[state: string, from: number, to: number]} Piece
 *
 * A task instance with its tries, a group, or the instances of a task that never started (`waits` says in words which).
 * `parts` are the bars: those of each try, or of a group from its first start to its last end.
 * @typedef {{ name: string, label: string, depth: number, task_id: string, map_index: number,
 *   group: "folded" | "open" | null, waits: string | null,
 *   tries: (Api["Segment"] & { segments: Piece[] })[], span: Span | null }} Row
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
 * The rows of a chart, in the order of the grid.
 * @param {Api["Gantt"]} gantt
 * @param {number} moment where unfinished segments end; 0: at the end of the run
 * @param {Api["RunResource"]} run
 * @param {Set<string>} folded ids of groups
 * @returns {Row[]}
 */
export function rowsOf(gantt, moment, run, folded) {
  const bars = barsOf(gantt.items, moment, run);
  const rows = [...gantt.rows, ...othersOf(gantt.rows, bars)];
  return visibleRows(rows, folded).flatMap((row) => {
    const { id, label, depth, index } = row;
    /** @type {Row} */
    const one = {
      name: id,
      label,
      depth,
      task_id: id,
      map_index: -1,
      group: null,
      waits: null,
      tries: [],
      span: null,
    };
    if (row.kind === "group")
      return [{ ...one, group: folded.has(id) ? "folded" : "open", span: around(row, rows, bars) }];
    /** @type {Row[]} */
    const found = (bars.get(id) ?? []).map((bar) => ({
      ...one,
      ...bar,
      name: taskName(bar),
      label: taskName({ ...bar, task_id: label }),
    }));
    const waits = waitingWords(rows[index].not_started, found.length, run.end_date !== null);
    return waits ? [...found, { ...one, waits }] : found;
  });
}

/**
 * Rows of the tasks that the version of the run does not have.
 * @param {Api["GanttRow"][]} rows
 * @param {ReturnType<typeof barsOf>} bars
 * @returns {Api["GanttRow"][]}
 */
function othersOf(rows, bars) {
  const known = new Set(rows.map(({ id }) => id));
  const other = {
    kind: /** @type {const} */ ("task"),
    depth: 0,
    is_mapped: false,
    task_index: null,
    not_started: {},
  };
  return [...bars.keys()].filter((id) => !known.has(id)).map((id) => ({ ...other, id, label: id }));
}

/**
 * The tries of all instances with their segments, by task.
 * @param {Api["Bar"][]} items
 * @param {number} moment
 * @param {Api["RunResource"]} run
 */
const barsOf = (items, moment, run) =>
  Map.groupBy(
    items.map((item) => ({
      ...item,
      tries: item.tries.map((one) => {
        const end = moment || Date.parse(run.end_date ?? one.end_date ?? one.start_date ?? "0");
        return { ...one, segments: segmentsOf(one, end) };
      }),
    })),
    (item) => item.task_id,
  );

/**
 * From the first start of a group's tasks to their last end; null if none has started.
 * @param {import("../grid/model.js").VisibleRow} group
 * @param {Api["GanttRow"][]} rows
 * @param {ReturnType<typeof barsOf>} bars
 */
function around({ index, depth }, rows, bars) {
  const after = rows.findIndex((row, i) => i > index && row.depth <= depth);
  const inside = rows.slice(index + 1, after < 0 ? undefined : after).flatMap(({ id }) => bars.get(id) ?? []);
  const span = extentOf(inside);
  return span.to ? span : null;
}

/**
 * From the first start to the last end of what is in a span already, and of bars.
 * @param {{ tries: { segments: Piece[] }[] }[]} bars
 * @param {Span} [span]
 */
const extentOf = (bars, span = { from: Infinity, to: 0 }) =>
  bars
    .flatMap((bar) => bar.tries.flatMap((one) => one.segments))
    .reduce(({ from, to }, [, a, b]) => ({ from: Math.min(from, a), to: Math.max(to, b) }), span);

/**
 * Instances without a try in words: "never started: 3 skipped".
 * @param {Record<string, number>} counts
 * @param {number} started how many others have a try
 * @param {boolean} ended whether the run has ended
 */
function waitingWords(counts, started, ended) {
  const states = byState(counts);
  if (!states.length) return "";
  const words = ended ? "never started" : "not started yet";
  const [[state, many]] = states;
  if (started || states.length > 1 || many > 1)
    return `${words}: ${states.map(([name, n]) => `${numeral(n)} ${stateOf(name).label}`).join(", ")}`;
  return state === "none" ? words : `${words}: ${stateOf(state).label}`;
}

/**
 * The start and end of a run including all tries; null if nothing has started.
 * @param {Row[]} rows
 * @param {Api["RunResource"]} run
 */
export function spanOf(rows, run) {
  const spans = rows
    .flatMap((row) => row.span ?? [])
    .concat({ from: ms(run.start_date) ?? Infinity, to: ms(run.end_date) ?? 0 });
  const { from, to } = extentOf(rows, {
    from: Math.min(...spans.map((one) => one.from)),
    to: Math.max(...spans.map((one) => one.to)),
  });
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
  if (row.waits) return [row.name, row.waits];
  if (row.group)
    return [
      row.name,
      row.span ? `group, took ${duration((row.span.to - row.span.from) / 1000)}` : "group, never started",
    ];
  return [row.name, ...row.tries.slice(-4).map(tryWords)];
}
