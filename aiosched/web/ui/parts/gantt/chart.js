// The Gantt chart of a run: each try as time segments, on a canvas that draws only the visible part.
import { html, useMemo, useRef, useState } from "../../lib/html.js";
import { useKey } from "../../lib/keys.js";
import { taskPath } from "../../lib/names.js";
import { go } from "../../lib/router.js";
import { now } from "../../lib/time.js";
import { Empty } from "../basics.js";
import { foldedGroups, toggleFold } from "../grid/folding.js";
import { useCanvas, useTooltip } from "../canvas.js";
import { HEAD, INDENT, ROW, paintChart } from "./painting.js";
import { rowWords, rowsOf, spanOf } from "./segments.js";

/**
 * @typedef {import("./segments.js").Row} Row
 *
 * What the keyboard listener needs: `chosen` is the number of a row.
 * @typedef {{ box: Ref<HTMLElement>, chosen: number | null, setChosen: (row: number | null) => void,
 *   open: (row: number) => void }} Moved
 *
 * What the pointer listeners need: `hover` holds the number of the row under the pointer.
 * @typedef {{ box: Ref<HTMLElement>, hover: Ref<number | null>, tip: import("../canvas.js").Tip, redraw: () => void,
 *   setChosen: (row: number | null) => void, open: (row: number) => void }} Pointed
 */

/**
 * The Gantt chart of a run. Used by the DAG page and the run page.
 * @param {{ dagId: string, run: Api["RunResource"], gantt: Api["Gantt"] }} props
 */
export function Chart({ dagId, run, gantt }) {
  const live = run.state === "running" || run.state === "queued";
  const moment = live ? now.value : 0;
  const folded = foldedGroups();
  const rows = useMemo(() => rowsOf(gantt, moment, run, folded), [gantt, moment, [...folded].join(",")]);
  const span = useMemo(() => spanOf(rows, run), [rows]);
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  /** @type {Ref<number | null>} */
  const hover = useRef(null);
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  const { box: tipBox, tip } = useTooltip();
  const left = namesWidth(rows);
  /** @type {import("../canvas.js").Draw} */
  const draw = (on, view) => {
    const scroll = box.current.scrollTop;
    if (span) paintChart(on, { ...view, rows, span, left, scroll, hover: hover.current, chosen });
  };
  const { canvas, redraw } = useCanvas(draw, [rows, chosen]);
  useKey("↑ ↓", "move in the Gantt chart; Enter opens a task, folds a group", () => {});
  if (!span || !rows.length)
    return html`<${Empty} title="Nothing has started yet">The tasks of this run have not been scheduled.<//>`;

  /** @param {number} row */
  const open = (row) => {
    if (rows[row].group) toggleFold(rows[row].name);
    else go(taskPath({ ...rows[row], dag_id: dagId, run_id: run.run_id }));
  };
  const pointer = pointerListeners(rows, { box, hover, tip, redraw, setChosen, open });
  return html`
    <div>
      <div
        class="gridbox"
        ref=${box}
        style=${{ height: `min(${HEAD + rows.length * ROW + 6}px, max(300px, calc(100vh - 300px)))` }}
        role="listbox"
        tabindex="0"
        aria-label="Gantt chart of the run"
        aria-activedescendant=${chosen === null ? undefined : "gantt-row"}
        onScroll=${redraw}
        onKeyDown=${keyListener(rows, { box, chosen, setChosen, open })}
        ...${pointer}
      >
        <div class="sticky" aria-hidden="true">
          <canvas ref=${canvas} />
        </div>
        <div class="spacer" aria-hidden="true" style=${{ height: `${HEAD + rows.length * ROW}px` }} />
        <div
          role="option"
          id="gantt-row"
          class="hidden-text"
          aria-selected=${chosen !== null ? "true" : "false"}
        >
          ${chosen === null ? "Use the arrow keys" : rowWords(rows[chosen]).join(", ")}
        </div>
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      ${chosen !== null && rows[chosen] && html`<${Selected} row=${rows[chosen]} open=${() => open(chosen)} />`}
    </div>
  `;
}

/**
 * The width of the task names, in pixels.
 * @param {Row[]} rows
 */
function namesWidth(rows) {
  const wanted = Math.max(0, ...rows.map((row) => row.label.length * 7.2 + row.depth * INDENT + 30));
  return Math.max(110, Math.min(innerWidth < 600 ? 130 : 280, wanted));
}

/**
 * @param {Row[]} rows
 * @param {Moved} moved
 * @returns {(event: KeyboardEvent) => void}
 */
function keyListener(rows, { box, chosen, setChosen, open }) {
  /** @type {Record<string, number>} */
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -rows.length, End: rows.length };
  /** @param {number} by */
  const move = (by) => {
    const row = Math.max(0, Math.min(rows.length - 1, (chosen ?? -1) + by));
    const least = (row + 1) * ROW - box.current.clientHeight + HEAD;
    setChosen(row);
    box.current.scrollTop = Math.min(Math.max(box.current.scrollTop, least), row * ROW);
  };
  return (event) => {
    if (steps[event.key]) move(steps[event.key]);
    else if (event.key === "Enter" && chosen !== null) open(chosen);
    else return;
    event.preventDefault();
  };
}

/**
 * @param {Row[]} rows
 * @param {Pointed} pointed
 * @returns {Record<string, (event: MouseEvent) => void>}
 */
function pointerListeners(rows, { box, hover, tip, redraw, setChosen, open }) {
  /** @param {MouseEvent} event */
  const rowAt = (event) => {
    const y = event.clientY - box.current.getBoundingClientRect().top - HEAD + box.current.scrollTop;
    const row = Math.floor(y / ROW);
    return row >= 0 && row < rows.length ? row : null;
  };
  return {
    onMouseMove(event) {
      const row = rowAt(event);
      if (row !== hover.current) {
        hover.current = row;
        redraw();
      }
      if (row === null) tip.hide();
      else tip.show(rowWords(rows[row]), event);
    },
    onMouseLeave() {
      hover.current = null;
      tip.hide();
      redraw();
    },
    onClick: (event) => setChosen(rowAt(event)),
    onDblClick(event) {
      const row = rowAt(event);
      if (row !== null) open(row);
    },
  };
}

/** @param {{ row: Row, open: () => void }} props */
function Selected({ row, open }) {
  const [name, ...tries] = rowWords(row);
  return html`
    <section class="selected card" aria-label="Selected">
      <div class="row apart">
        <div class="row">
          <b>${name}</b>
          ${tries.map((line) => html`
            <span class="soft">${line}</span>
          `)}
        </div>
        <button class="button small" onClick=${open}>
          ${row.group ? "Fold or unfold" : "Open"}
        </button>
      </div>
    </section>
  `;
}
