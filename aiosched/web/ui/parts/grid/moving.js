// Keyboard and pointer input in the grid: move the focus, select, open, fold.
import { may } from "../../lib/api.js";
import { labelAndId } from "../../lib/names.js";
import { cellWords, runLabel, runWords } from "./model.js";
import { go, path } from "../../lib/router.js";
import { instant } from "../../lib/time.js";
import { toggleFold } from "./folding.js";
import { COLUMN, HEAD, ROW, between } from "./scene.js";

/** @typedef {import("./scene.js").Place} Place */
/** @typedef {import("./scene.js").Scene} Scene */

/**
 * Moves the focus to a place that may be outside of the grid; `extend` selects what is between.
 * @typedef {(row: number, column: number, extend: boolean) => void} Move
 *
 * The row and column under the pointer, null if none; `label`: the pointer is on a row name.
 * @typedef {{ row: number | null, column: number | null, label: boolean }} Under
 *
 * What the pointer listeners need.
 * @typedef {{ box: Ref<HTMLElement>, hover: Ref<Under | null>, tip: import("../canvas.js").Tip, redraw: () => void,
 *   focus: Move }} Pointed
 */

/**
 * A run, or a task in a run, as lines of text.
 * @param {Scene} scene
 * @param {Place} place
 */
export function placeWords({ grid, rows }, { row, column }) {
  const run = grid.runs[column];
  if (row < 0) return [instant(runLabel(run)), run.run_id, ...runWords(run)];
  return [
    rows[row].id,
    cellWords(grid.cells[column][rows[row].index]),
    `${instant(runLabel(run))} · ${run.run_id}`,
  ];
}

/**
 * The same as a sentence, for screen readers.
 * @param {Scene} scene
 * @param {Place} place
 */
export function placeSentence({ grid, rows }, { row, column }) {
  const run = grid.runs[column];
  const named = `${instant(runLabel(run))} (${run.run_id})`;
  if (row < 0) return `Run of ${named}: ${runWords(run).join(", ")}.`;
  const { id, kind, index } = rows[row];
  const what = kind === "group" ? "Group" : "Task";
  return `${what} ${id}, ${cellWords(grid.cells[column][index])}, in the run of ${named}.`;
}

/**
 * Open the page of a place; a group is folded instead.
 * @param {string} dagId
 * @param {Scene} scene
 * @param {Place} place
 */
export function openPlace(dagId, { grid, rows }, { row, column }) {
  const ofRun = path("dags", dagId, "runs", grid.runs[column].run_id);
  const one = rows[row];
  if (row < 0) go(ofRun);
  else if (one.kind === "group") toggleFold(one.id);
  else if (one.is_mapped) go(`${ofRun}?tab=tasks&task=${encodeURIComponent(one.id)}`);
  else go(path("dags", dagId, "runs", grid.runs[column].run_id, "tasks", one.id));
}

/**
 * Scroll so that a place is in view.
 * @param {HTMLElement} box
 * @param {number} left width of the task names
 * @param {Place} place
 */
export function bringIntoView(box, left, { row, column }) {
  const x = column * COLUMN;
  const y = row * ROW;
  if (x < box.scrollLeft) box.scrollLeft = x;
  else if (x + COLUMN > box.scrollLeft + box.clientWidth - left)
    box.scrollLeft = x + COLUMN - box.clientWidth + left;
  if (row >= 0 && y < box.scrollTop) box.scrollTop = y;
  else if (y + ROW > box.scrollTop + box.clientHeight - HEAD) box.scrollTop = y + ROW - box.clientHeight + HEAD;
}

/**
 * The keyboard listener. `focus(row, column, extend)` moves, `clear()` opens the dialog, `leave()` drops the focus.
 * @param {string} dagId
 * @param {Scene} scene
 * @param {{ focus: Move, clear: () => void, leave: () => void }} actions
 * @returns {(event: KeyboardEvent) => void}
 */
export function keyListener(dagId, scene, { focus, clear, leave }) {
  const { place, rows, grid } = scene;
  const many = grid.runs.length;
  /** @type {Record<string, [number, number]>} */
  const steps = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    PageUp: [-10, 0],
    PageDown: [10, 0],
    Home: [0, -many],
    End: [0, many],
  };
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = place ?? { row: -1, column: many };
    const step = steps[event.key];
    if (step) focus(now.row + step[0], now.column + step[1], event.shiftKey);
    else if (event.key === "Enter" && place) openPlace(dagId, scene, place);
    else if (event.key === " " && place && rows[place.row]?.kind === "group") toggleFold(rows[place.row].id);
    else if (event.key === "c" && place && may("operator")) clear();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/**
 * The pointer listeners; `hover` holds the place under the pointer, `tip` is its tooltip.
 * @param {string} dagId
 * @param {Scene} scene
 * @param {Pointed} pointed
 * @returns {Record<string, (event: MouseEvent) => void>}
 */
export function pointerListeners(dagId, scene, { box, hover, tip, redraw, focus }) {
  const { rows } = scene;
  /**
   * @param {Under} now
   * @returns {now is Under & Place}
   */
  const isCell = (now) => now.column !== null && now.row !== null;
  /**
   * @param {Under} now
   * @returns {now is Under & { row: number }}
   */
  const isGroup = (now) => now.label && now.row !== null && rows[now.row]?.kind === "group";
  return {
    onMouseMove(event) {
      const now = under(event, box.current, scene);
      const same = now.column === hover.current?.column && now.row === hover.current?.row;
      if (!same) {
        hover.current = now;
        redraw();
        box.current.style.cursor = isCell(now) || isGroup(now) ? "pointer" : "";
      }
      if (isCell(now)) tip.show(placeWords(scene, now), event);
      else if (same) return;
      else if (now.label && now.row !== null && rows[now.row]) tip.show(nameWords(rows[now.row]), event);
      else tip.hide();
    },
    onMouseLeave() {
      hover.current = null;
      tip.hide();
      redraw();
    },
    onClick(event) {
      tip.hide(); // it would cover what opens
      const now = under(event, box.current, scene);
      if (isGroup(now)) toggleFold(rows[now.row].id);
      else if (isCell(now)) focus(now.row, now.column, event.shiftKey);
    },
    onDblClick(event) {
      const now = under(event, box.current, scene);
      if (isCell(now)) openPlace(dagId, scene, now);
    },
  };
}

/** @param {import("./scene.js").VisibleRow} row */
const nameWords = (row) => [
  ...labelAndId(row),
  row.kind === "group" ? "group" : row.is_mapped && "mapped task",
];

/**
 * @param {MouseEvent} event
 * @param {HTMLElement} box
 * @param {Scene} scene
 * @returns {Under}
 */
function under(event, box, { grid, rows, left }) {
  const frame = box.getBoundingClientRect();
  const x = event.clientX - frame.left - box.clientLeft;
  const y = event.clientY - frame.top - box.clientTop;
  const column = x < left ? null : Math.floor((x - left + box.scrollLeft) / COLUMN);
  const row = y < HEAD ? -1 : Math.floor((y - HEAD + box.scrollTop) / ROW);
  return {
    column: column === null || column >= grid.runs.length ? null : column,
    row: row >= rows.length ? null : row,
    label: x < left,
  };
}

/**
 * The place nearest to a row and column that may be outside the grid.
 * @param {Scene} scene
 * @param {number} row
 * @param {number} column
 */
export const nearest = ({ rows, grid }, row, column) => ({
  row: between(row, -1, rows.length - 1),
  column: between(column, 0, grid.runs.length - 1),
});
