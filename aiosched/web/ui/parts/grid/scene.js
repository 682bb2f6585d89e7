// Where things of the grid are: sizes in pixels, the place in focus, what is selected.

export const ROW = 22;
export const COLUMN = 20;
export const CELL = 16;
export const HEAD = 78; // pixels above the rows: bars and states of the runs
export const BARS = 46;
export const INDENT = 12;

/**
 * A row of the grid that is not folded away: `index` is its number among all rows.
 * @typedef {Api["Row"] & { index: number }} VisibleRow
 *
 * A row (-1: the run itself) and a column.
 * @typedef {{ row: number, column: number }} Place
 *
 * @typedef {{ top: number, bottom: number, from: number, to: number }} Range
 *
 * Everything that is drawn, but for where it is scrolled to.
 * @typedef {object} Scene
 * @property {Api["Grid"]} grid
 * @property {VisibleRow[]} rows
 * @property {Set<string>} folded ids of groups
 * @property {Place | null} place what is in focus
 * @property {Range | null} range what is selected, if it is more than that
 * @property {number} left pixels beside the cells: the names of tasks
 * @property {number} longest seconds of the longest run
 */

/** @param {number} n */
export const between = (n, low, high) => Math.max(low, Math.min(high, n));

/**
 * How wide the names of the tasks are.
 * @param {Api["Row"][]} rows
 * @param {boolean} narrow whether the screen is
 */
export function namesWidth(rows, narrow) {
  const widths = rows.map((row) => row.label.length * 7.6 + row.depth * INDENT + (row.is_mapped ? 56 : 38));
  return between(Math.max(...widths), 110, narrow ? 130 : 300);
}

/**
 * Where the focus is: null where it is not in the grid.
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
 * What is between two corners.
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
 * What is selected as an action takes it: without `task_ids` whole runs; a group means the tasks in it.
 * @param {Scene} scene  with something in focus
 * @returns {{ run_ids: string[], task_ids?: string[] }}
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
