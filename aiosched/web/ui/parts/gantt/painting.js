// Draws the Gantt chart: the time axis and a bar for each segment of a try, only for the rows in view.
import { stateOf } from "../../lib/states.js";
import { STEPS, instant, lengthAtStep } from "../../lib/time.js";
import { clip } from "../canvas.js";
import { THIN } from "./segments.js";

/** @typedef {import("./segments.js").Row} Row */
/** @typedef {import("./segments.js").Piece} Piece */

/**
 * `left` is the width of the names and `scroll` the scroll position in pixels; `hover` and `chosen` are row numbers.
 * @typedef {import("../canvas.js").View & { rows: Row[], span: import("./segments.js").Span, left: number,
 *   scroll: number, hover: number | null, chosen: number | null }} Picture
 *
 * The same with the seconds between grid lines, pixels per ms, and the place of a time.
 * @typedef {Picture & { step: number, scale: number, x: (time: number) => number }} Drawing
 */

export const ROW = 22;
export const HEAD = 26; // height of the time axis, in pixels
export const INDENT = 12; // of what is in a group
const BAR = 12;

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Picture} picture
 */
export function paintChart(on, picture) {
  const { width, height, colours, rows, span, left, scroll } = picture;
  const first = Math.max(0, Math.floor(scroll / ROW));
  const last = Math.min(rows.length - 1, Math.ceil((scroll + height - HEAD) / ROW));
  const scale = (width - left - 24) / (span.to - span.from);
  const step = STEPS.find((seconds) => seconds * 1000 * scale > 80) ?? STEPS[STEPS.length - 1];
  /** @type {Drawing} */
  const view = { ...picture, scale, step, x: (time) => left + 6 + (time - span.from) * scale };
  on.textBaseline = "middle";
  on.fillStyle = colours.line;
  for (let time = span.from; time <= span.to; time += step * 1000) {
    on.fillRect(Math.round(view.x(time)), HEAD - 6, 1, height);
  }
  for (let row = first; row <= last; row++) paintRow(on, row, view);
  paintTimes(on, view);
  on.fillStyle = colours.line;
  on.fillRect(0, HEAD - 4, width, 1);
  on.fillRect(left, 0, 1, height);
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {number} row
 * @param {Drawing} view
 */
function paintRow(on, row, view) {
  const { width, colours, rows, left, scroll, hover, chosen } = view;
  const y = HEAD + row * ROW - scroll;
  if (hover === row || chosen === row) {
    on.fillStyle = colours.sunken;
    on.fillRect(0, y, width, ROW);
  }
  on.font = `10.5px ${colours.sans}`;
  const { tries, group, waits, label, depth, span } = rows[row];
  for (const one of tries) for (const segment of one.segments) paintSegment(on, one, segment, y, view);
  on.fillStyle = colours.faint;
  if (span) on.fillRect(view.x(span.from), y + ROW / 2 - 2, Math.max(3, (span.to - span.from) * view.scale), 4);
  on.font = `12.5px ${colours.sans}`;
  on.textAlign = "left";
  if (waits) on.fillText(clip(on, waits, width - left - 12), left + 6, y + ROW / 2 + 0.5);
  const sign = group ? (group === "folded" ? "▸ " : "▾ ") : "";
  const indent = 10 + depth * INDENT;
  on.fillStyle = group ? colours.text : colours.soft;
  on.fillText(clip(on, sign + label, left - indent - 10), indent, y + ROW / 2 + 0.5);
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Row["tries"][number]} one
 * @param {Piece} segment
 * @param {number} y
 * @param {Drawing} view
 */
function paintSegment(on, one, [state, from, to], y, { colours, scale, x }) {
  const waiting = state in THIN;
  const high = THIN[state] ?? BAR;
  const wide = Math.max(waiting ? 1 : 3, (to - from) * scale);
  on.fillStyle = colours.state[state] ?? colours.state.none;
  on.globalAlpha = waiting ? 0.55 : 1;
  on.beginPath();
  on.roundRect(x(from), y + (ROW - high) / 2, wide, high, high / 4);
  on.fill();
  on.globalAlpha = 1;
  if (high <= 4 || wide <= 18) return;
  const { glyph } = stateOf(state);
  on.fillStyle = state === "deferred" ? colours.text : colours.glyph;
  on.textAlign = "left";
  on.fillText(
    one.try_number > 1 && !waiting ? `${glyph} ${one.try_number}` : glyph,
    x(from) + 4,
    y + ROW / 2 + 0.5,
  );
}

/**
 * The start time, then offsets from it.
 * @param {CanvasRenderingContext2D} on
 * @param {Drawing} view
 */
function paintTimes(on, { width, colours, span, step, x }) {
  on.fillStyle = colours.surface;
  on.fillRect(0, 0, width, HEAD - 4);
  on.font = `10.5px ${colours.sans}`;
  on.fillStyle = colours.faint;
  on.textAlign = "left";
  for (let time = span.from, n = 0; time <= span.to; time += step * 1000, n++) {
    if (x(time) >= width - 60) continue;
    on.fillText(
      n === 0 ? instant(new Date(time)).slice(11) : `+${lengthAtStep(n * step, step)}`,
      x(time) + 3,
      10,
    );
  }
}
