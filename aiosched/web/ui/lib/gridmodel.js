// What the grid is made of, apart from how it is drawn: visible rows, patches of cells, words for a cell.
import { stateOf, worst } from "./states.js";
import { duration } from "./time.js";

/**
 * The rows that are not inside a folded group.
 * @param {Api["Row"][]} rows
 * @param {Set<string>} folded
 */
export function visibleRows(rows, folded) {
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

/** The state that stands for a cell, and its counts where it has several instances. */
export function readCell(cell) {
  if (cell === null || cell === undefined) return null;
  if (typeof cell === "string") return { state: cell, counts: null, total: 1 };
  const total = Object.values(cell).reduce((sum, n) => sum + n, 0);
  return { state: worst(cell), counts: cell, total };
}

/** A cell in words: "success", or "3 success, 1 failed". */
export function cellWords(cell) {
  const read = readCell(cell);
  if (!read) return "not in this run";
  if (!read.counts) return stateOf(read.state).label;
  return Object.entries(read.counts)
    .map(([name, n]) => `${n} ${stateOf(name).label}`)
    .join(", ");
}

/**
 * When a run was meant for.
 * @param {Api["Run"]} run
 */
export const runLabel = (run) => run.logical_date ?? run.run_after;

export const runWords = (run) =>
  [
    `${run.run_type} run, ${stateOf(run.state).label}`,
    run.seconds !== null && run.seconds !== undefined && `took ${duration(run.seconds)}`,
    run.note,
  ].filter(Boolean);

/**
 * The grid after news of a run; undefined when it has to be read again.
 * @param {Api["Grid"]} grid
 * @param {any} patch
 * @param {Set<number>} watched keys of runs whose tasks are told, too
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
 * The grid after news of instances of a run; undefined when it has to be read again.
 * @param {Api["Grid"]} grid
 * @param {any} patch
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
  refold(grid.rows, cells);
  return { ...grid, cells: grid.cells.with(column, cells) };
}

/** Counts of states as a cell holds them: see the API's Grid. */
function cellOf(counts, isMapped) {
  const states = Object.keys(counts);
  if (!states.length) return null;
  return !isMapped && states.length === 1 && counts[states[0]] === 1 ? states[0] : counts;
}

/** Count the cells of groups from what they hold. */
function refold(rows, cells) {
  const open = [];
  rows.forEach((row, i) => {
    while (open.length && open.at(-1).depth >= row.depth) open.pop();
    if (row.kind === "group") {
      open.push({ depth: row.depth, counts: (cells[i] = {}) });
      return;
    }
    const cell = cells[i];
    if (cell === null) return;
    for (const [name, n] of typeof cell === "string" ? [[cell, 1]] : Object.entries(cell))
      for (const group of open) group.counts[name] = (group.counts[name] ?? 0) + n;
  });
  rows.forEach((row, i) => {
    if (row.kind === "group" && !Object.keys(cells[i]).length) cells[i] = null;
  });
}
