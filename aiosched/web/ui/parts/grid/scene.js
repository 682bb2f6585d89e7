// The geometry of the grid: sizes in pixels, the focused place, the selection.

export const ROW = 22;
export const COLUMN = 20;
export const CELL = 16;
export const HEAD = 78; // height of the run headers: bars and states
export const BARS = 46;
export const INDENT = 12;

/**
 * @typedef {import("./model.js").VisibleRow} VisibleRow
 *
 * A row (-1: the run itself) and a column.
 * @typedef {{ row: number, column: number }} Place
 *
 * @typedef {{ top: number, bottom: number, from: number, to: number }} Range
 *
 * Everything that is drawn, except the scroll position.
 * @typedef {object} Scene
 * @property {Api["Grid"]} grid
 * @property {VisibleRow[]} rows
 * @property {Set<string>} folded ids of groups
 * @property {Place | null} place the focus
 * @property {Range | null} range the selection, if larger than the focus
 * @property {number} left width of the task names
 * @property {number} longest duration of the longest run, in seconds
 */

/**
 * @param {number} n
 * @param {number} low
 * @param {number} high
 */
export const between = (n, low, high) => Math.max(low, Math.min(high, n));

/**
 * The width of the task names.
 * @param {Api["Row"][]} rows
 * @param {boolean} narrow whether the screen is narrow
 */
export function namesWidth(rows, narrow) {
  const widths = rows.map((row) => row.label.length * 7.6 + row.depth * INDENT + (row.is_mapped ? 56 : 38));
  return between(Math.max(...widths), 110, narrow ? 130 : 300);
}

/**
 * The place of the focus; null if it is not in the grid.
 * @param {VisibleRow[]} rows
 * @param {Api["Grid"]["runs"]} runs
 * @param {{ run: string | null, task: string | null }} focus
 * @returns {Place | null}
 */
export function placeOf(rows, runs, focus) {
  const column = runs.findIndex((run) => run.run_id === focus.run);
  const row = focus.task === null ? -1 : rows.findIndex((one) => one.id === focus.task);
  return column < 0 || (row < 0 && focus.task !== null) ? null : { row, column };
}

/**
 * The range between two corners.
 * @param {Place | null} place
 * @param {Place | null} anchor
 * @returns {Range | null}
 */
export function rangeOf(place, anchor) {
  if (!place || !anchor) return null;
  return {
    top: Math.min(place.row, anchor.row),
    bottom: Math.max(place.row, anchor.row),
    from: Math.min(place.column, anchor.column),
    to: Math.max(place.column, anchor.column),
  };
}

/**
 * The selection for an action: without `task_ids`, whole runs; a group stands for its tasks.
 * @param {Scene} scene
 * @returns {import("../actions/clear.js").Selection}
 */
export function selectionOf({ rows, grid, place, range }) {
  if (!place) return { run_ids: [] };
  const area = range ?? { top: place.row, bottom: place.row, from: place.column, to: place.column };
  const run_ids = grid.runs.slice(area.from, area.to + 1).map((run) => run.run_id);
  if (area.top < 0) return { run_ids };
  /** @type {Set<string>} */
  const tasks = new Set();
  for (const { index } of rows.slice(area.top, area.bottom + 1)) {
    for (let i = index; i === index || grid.rows[i]?.depth > grid.rows[index].depth; i++)
      if (grid.rows[i].kind === "task") tasks.add(grid.rows[i].id);
  }
  return { run_ids, task_ids: [...tasks] };
}
