// The data model of the grid, without drawing: visible rows, cell updates, text for a cell.
import { labelAndId } from "../../lib/names.js";
import { stateOf, worst } from "../../lib/states.js";
import { duration } from "../../lib/time.js";

/**
 * A row outside folded groups; `index` is its number among all rows.
 * @typedef {Api["Row"] & { index: number }} VisibleRow
 *
 * A state, the number of instances in each state, or null if the run does not have the task.
 * @typedef {Api["Grid"]["cells"][number][number]} Cell
 */

/**
 * The rows outside folded groups; with a `text` the tasks whose id has it, and the groups that they are in.
 * @param {Api["Row"][]} rows
 * @param {Set<string>} folded
 * @param {string} [text]
 */
export function visibleRows(rows, folded, text = "") {
  if (text) return rowsWith(rows, text.toLowerCase());
  /** @type {VisibleRow[]} */
  const shown = [];
  let hiddenBelow = Infinity;
  rows.forEach((row, index) => {
    if (row.depth > hiddenBelow) return;
    hiddenBelow = Infinity;
    shown.push({ ...row, index });
    if (row.kind === "group" && folded.has(row.id)) hiddenBelow = row.depth;
  });
  return shown;
}

/**
 * @param {Api["Row"][]} rows
 * @param {string} text
 */
function rowsWith(rows, text) {
  /** @type {VisibleRow[]} */
  const shown = [];
  /** @type {VisibleRow[]} */
  let above = []; // the groups that a row is in, and that are not shown yet
  rows.forEach((row, index) => {
    above = above.filter((group) => group.depth < row.depth);
    if (row.kind === "group") above.push({ ...row, index });
    else if (labelAndId(row).some((name) => name.toLowerCase().includes(text)))
      shown.push(...above.splice(0), { ...row, index });
  });
  return shown;
}

/**
 * The state shown for a cell, and its counts if it has several instances.
 * @param {Cell | undefined} cell
 */
export function readCell(cell) {
  if (cell === null || cell === undefined) return null;
  if (typeof cell === "string") return { state: cell, counts: null, total: 1 };
  const total = Object.values(cell).reduce((sum, n) => sum + n, 0);
  return { state: worst(cell), counts: cell, total };
}

/**
 * The run that ended last and its first failed task, if that run failed.
 * @param {Api["Grid"]} grid
 */
export function lastFailure({ runs, rows, cells }) {
  const column = runs.findLastIndex(({ state }) => state === "success" || state === "failed");
  if (runs[column]?.state !== "failed") return null;
  const task = rows.find((row, i) => row.kind === "task" && readCell(cells[column][i])?.state === "failed");
  return { run: runs[column].run_id, task: task?.id ?? null };
}

/**
 * A cell as text: "success", or "3 success, 1 failed".
 * @param {Cell | undefined} cell
 */
export function cellWords(cell) {
  const read = readCell(cell);
  if (!read) return "not in this run";
  if (!read.counts) return stateOf(read.state).label;
  return Object.entries(read.counts)
    .map(([name, n]) => `${n} ${stateOf(name).label}`)
    .join(", ");
}

/**
 * The date of a run.
 * @param {Api["RunResource"]} run
 */
export const runLabel = (run) => run.logical_date ?? run.run_after;

/** @param {Api["RunResource"]} run */
export const runWords = (run) =>
  [
    `${run.run_type} run, ${stateOf(run.state).label}`,
    run.seconds !== null && run.seconds !== undefined && `took ${duration(run.seconds)}`,
    run.note,
  ].filter(Boolean);

/**
 * Apply a change of a run to the grid; undefined if the grid must be reloaded.
 * @param {Api["Grid"]} grid
 * @param {RunPatch} patch
 * @param {Set<number>} watched keys of runs whose task changes are received as well
 */
export function patchRun(grid, patch, watched) {
  const index = grid.runs.findIndex((run) => run.key === patch.key);
  if (index < 0 || !watched.has(patch.key)) return undefined;
  const { state, start_date, end_date, note } = patch;
  const seconds = start_date && end_date ? (Date.parse(end_date) - Date.parse(start_date)) / 1000 : null;
  return {
    ...grid,
    runs: grid.runs.with(index, { ...grid.runs[index], state, start_date, end_date, note, seconds }),
  };
}

/**
 * Apply changes of a run's task instances to the grid; undefined if the grid must be reloaded.
 * @param {Api["Grid"]} grid
 * @param {TaskPatch} patch
 */
export function patchTasks(grid, patch) {
  const column = grid.runs.findIndex((run) => run.key === patch.run);
  if (column < 0) return grid;
  if (!patch.counts || grid.runs[column].version !== grid.version) return undefined;
  const cells = grid.cells[column].slice();
  for (const [index, counts] of Object.entries(patch.counts)) {
    const at = grid.rows.findIndex((row) => row.task_index === Number(index));
    if (at < 0) return undefined;
    cells[at] = cellOf(counts, grid.rows[at].is_mapped);
  }
  recountGroups(grid.rows, cells);
  return { ...grid, cells: grid.cells.with(column, cells) };
}

/**
 * State counts in the form used by cells: see Grid in the API.
 * @param {Record<string, number>} counts
 * @param {boolean} isMapped
 * @returns {Cell}
 */
function cellOf(counts, isMapped) {
  const states = Object.keys(counts);
  if (!states.length) return null;
  return !isMapped && states.length === 1 && counts[states[0]] === 1 ? states[0] : counts;
}

/**
 * Recompute the cells of groups from their tasks.
 * @param {Api["Row"][]} rows
 * @param {Cell[]} cells
 */
function recountGroups(rows, cells) {
  /** @type {{ depth: number, counts: Record<string, number> }[]} */
  const open = [];
  rows.forEach((row, i) => {
    while ((open.at(-1)?.depth ?? -1) >= row.depth) open.pop();
    if (row.kind === "group") {
      open.push({ depth: row.depth, counts: (cells[i] = {}) });
      return;
    }
    const cell = cells[i];
    if (cell === null) return;
    for (const [name, n] of Object.entries(typeof cell === "string" ? { [cell]: 1 } : cell))
      for (const group of open) group.counts[name] = (group.counts[name] ?? 0) + n;
  });
  rows.forEach((row, i) => {
    if (row.kind === "group" && !Object.keys(cells[i] ?? {}).length) cells[i] = null;
  });
}
