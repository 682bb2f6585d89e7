// Draws the grid: cells, run headers and task names, only the visible ones.
import { readCell, runLabel } from "./model.js";
import { duration, instant } from "../../lib/time.js";
import { clip, sprite } from "../canvas.js";
import { BARS, CELL, COLUMN, HEAD, INDENT, ROW } from "./scene.js";

/**
 * What is drawn and where.
 * @typedef {import("./scene.js").Scene & import("../canvas.js").View & {
 *   scroll: { x: number, y: number },
 *   marked: { row?: number | null, column?: number | null },
 * }} Picture  `marked` is the row and column under the pointer
 *
 * The same with what is visible and where it is.
 * @typedef {Picture & {
 *   firstRow: number, lastRow: number, firstColumn: number, lastColumn: number,
 *   xOf: (column: number) => number, yOf: (row: number) => number,
 *   inRange: (row: number, column: number) => boolean | null,
 * }} Drawing
 */

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Picture} picture
 */
export function paintGrid(on, picture) {
  const { rows, grid, left, scroll, width, height } = picture;
  /** @type {Drawing} */
  const view = {
    ...picture,
    firstRow: Math.max(0, Math.floor(scroll.y / ROW)),
    lastRow: Math.min(rows.length - 1, Math.ceil((scroll.y + height - HEAD) / ROW)),
    firstColumn: Math.max(0, Math.floor(scroll.x / COLUMN)),
    lastColumn: Math.min(grid.runs.length - 1, Math.ceil((scroll.x + width - left) / COLUMN)),
    xOf: (column) => left + column * COLUMN - scroll.x,
    yOf: (row) => HEAD + row * ROW - scroll.y,
    inRange: (row, column) => inside(picture.range, row, column),
  };
  within(on, [left, HEAD, width - left, height - HEAD], () => paintCells(on, view));
  within(on, [left, 0, width - left, HEAD], () => paintRuns(on, view));
  on.save();
  paintNames(on, view);
  on.restore();
}

/**
 * Draw clipped to a part of the canvas.
 * @param {CanvasRenderingContext2D} on
 * @param {[number, number, number, number]} area
 * @param {() => void} draw
 */
function within(on, [x, y, width, height], draw) {
  on.save();
  on.beginPath();
  on.rect(x, y, width, height);
  on.clip();
  draw();
  on.restore();
}

/**
 * @param {import("./scene.js").Range | null} range
 * @param {number} row
 * @param {number} column
 */
const inside = (range, row, column) =>
  range && row >= range.top && row <= range.bottom && column >= range.from && column <= range.to;

// ---- cells ----

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 */
function paintCells(on, view) {
  const { left, width, height, colours, place, marked, xOf, yOf } = view;
  for (let row = view.firstRow; row <= view.lastRow; row++) {
    if (marked.row === row || place?.row === row) {
      on.fillStyle = colours.sunken;
      on.fillRect(left, yOf(row), width - left, ROW);
    }
  }
  for (let column = view.firstColumn; column <= view.lastColumn; column++) {
    if (marked.column === column || place?.column === column) {
      on.fillStyle = colours.sunken;
      on.fillRect(xOf(column), HEAD, COLUMN, height - HEAD);
    }
    for (let row = view.firstRow; row <= view.lastRow; row++) paintCell(on, view, row, column);
  }
  if (place && place.row >= 0) {
    on.strokeStyle = colours.accent;
    on.lineWidth = 2;
    on.strokeRect(xOf(place.column) + 1, yOf(place.row) + 1, COLUMN - 2, ROW - 2);
  }
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 * @param {number} row
 * @param {number} column
 */
function paintCell(on, view, row, column) {
  const { rows, grid, colours, density, xOf, yOf } = view;
  const cell = readCell(grid.cells[column][rows[row].index]);
  const x = xOf(column) + (COLUMN - CELL) / 2;
  const y = yOf(row) + (ROW - CELL) / 2;
  if (view.inRange(row, column)) {
    on.fillStyle = colours.accentSoft;
    on.fillRect(xOf(column), yOf(row), COLUMN, ROW);
  }
  if (!cell) {
    on.fillStyle = colours.line;
    on.fillRect(x + CELL / 2 - 1, y + CELL / 2 - 1, 2, 2);
    return;
  }
  const total = cell.total > 99 ? "99+" : String(cell.total);
  const count = rows[row].kind === "task" && cell.counts ? total : undefined;
  on.drawImage(sprite(colours, cell.state, CELL, density, count), x, y, CELL, CELL);
  if (cell.counts && Object.keys(cell.counts).length > 1) paintShares(on, cell, colours, x, y + CELL - 4);
}

/**
 * A thin bar with the share of each state.
 * @param {CanvasRenderingContext2D} on
 * @param {{ counts: Record<string, number>, total: number }} cell
 * @param {import("../canvas.js").Palette} colours
 * @param {number} x
 * @param {number} y
 */
function paintShares(on, cell, colours, x, y) {
  let from = x;
  on.fillStyle = colours.surface;
  on.fillRect(x, y - 1, CELL, 1);
  for (const [name, n] of Object.entries(cell.counts)) {
    const width = (n / cell.total) * CELL;
    on.fillStyle = colours.state[name] ?? colours.state.none;
    on.fillRect(from, y, width, 4);
    from += width;
  }
}

// ---- run headers ----

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 */
function paintRuns(on, view) {
  const { width, left, colours, grid } = view;
  on.fillStyle = colours.surface;
  on.fillRect(left, 0, width - left, HEAD);
  on.font = `10.5px ${colours.sans}`;
  on.textBaseline = "alphabetic";
  on.textAlign = "left";
  for (let column = view.firstColumn - 6; column <= view.lastColumn; column++) {
    if (grid.runs[column]) paintRun(on, view, column);
  }
  on.fillStyle = colours.line;
  on.fillRect(left, HEAD - 1, width, 1);
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 * @param {number} column
 */
function paintRun(on, { grid, colours, density, longest, place, marked, xOf, inRange }, column) {
  const run = grid.runs[column];
  const x = xOf(column);
  if (column % 6 === 0) {
    on.fillStyle = colours.faint;
    on.fillText(instant(runLabel(run)).slice(5, 16), x + 2, 11);
    on.fillRect(x, 2, 1, 12);
  }
  if (marked.column === column || inRange(-1, column)) {
    on.fillStyle = colours.sunken;
    on.fillRect(x, 16, COLUMN, HEAD);
  }
  const height = Math.max(3, Math.round(((run.seconds ?? 0) / longest) * (BARS - 6)));
  on.fillStyle = colours.state[run.state];
  on.globalAlpha = 0.75;
  on.beginPath();
  on.roundRect(x + 5, 14 + BARS - height, COLUMN - 10, height - 1, [2, 2, 0, 0]);
  on.fill();
  on.globalAlpha = 1;
  on.drawImage(sprite(colours, run.state, 14, density), x + 3, 14 + BARS + 1, 14, 14);
  if (place?.row === -1 && place.column === column) {
    on.strokeStyle = colours.accent;
    on.lineWidth = 2;
    on.strokeRect(x + 1, 16, COLUMN - 2, HEAD - 18);
  }
}

// ---- task names ----

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 */
function paintNames(on, view) {
  const { height, left, colours } = view;
  on.fillStyle = colours.surface;
  on.fillRect(0, 0, left, height);
  on.fillStyle = colours.line;
  on.fillRect(left - 1, 0, 1, height);
  on.fillRect(0, HEAD - 1, left, 1);
  on.font = `10.5px ${colours.sans}`;
  on.fillStyle = colours.faint;
  on.textBaseline = "alphabetic";
  on.textAlign = "right";
  if (view.grid.runs.some((run) => run.seconds)) on.fillText(`longest ${duration(view.longest)}`, left - 8, 26);
  on.beginPath();
  on.rect(0, HEAD, left - 1, height - HEAD);
  on.clip();
  on.textAlign = "left";
  on.textBaseline = "middle";
  for (let row = view.firstRow; row <= view.lastRow; row++) paintName(on, view, row);
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 * @param {number} row
 */
function paintName(on, { rows, folded, left, colours, place, marked, yOf }, row) {
  const one = rows[row];
  const y = yOf(row);
  const x = 10 + one.depth * INDENT;
  const group = one.kind === "group";
  if (marked.row === row || place?.row === row) {
    on.fillStyle = colours.sunken;
    on.fillRect(0, y, left - 1, ROW);
  }
  on.font = `${group ? "600 " : ""}12.5px ${colours.sans}`;
  on.fillStyle = group ? colours.text : colours.soft;
  if (group) on.fillText(folded.has(one.id) ? "▸" : "▾", x, y + ROW / 2);
  const tail = one.is_mapped ? " [ ]" : "";
  const label = clip(on, one.label, left - x - 22 - (tail ? 16 : 0)) + tail;
  on.fillText(label, x + (group ? 14 : 2), y + ROW / 2 + 0.5);
}
