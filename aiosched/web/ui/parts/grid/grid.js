// The grid of a DAG: runs as columns, tasks as rows, on one canvas that draws only the visible part.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { lastFailure, visibleRows } from "./model.js";
import { useKey } from "../../lib/keys.js";
import { query, setQuery } from "../../lib/router.js";
import { useCanvas, useFirstPaint, useTooltip } from "../canvas.js";
import { foldedGroups } from "./folding.js";
import { bringIntoView, keyListener, nearest, openPlace, placeSentence, pointerListeners } from "./moving.js";
import { paintGrid } from "./painting.js";
import { COLUMN, HEAD, ROW, namesWidth, placeOf, rangeOf, selectionOf } from "./scene.js";
import { Selected } from "./selected.js";

/** @typedef {import("./scene.js").Place} Place */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {{ run: string | null, task: string | null }} Focus */

/**
 * `startedAt` is the start time for the first-paint measure, from `performance.now()`.
 * @param {{ dagId: string, grid: Api["Grid"], startedAt: number }} props
 */
export function Grid({ dagId, grid, startedAt }) {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  const { scene, selected, focus, leave } = useSelection(grid, box);
  const { rows, place, left } = scene;
  const [dialog, setDialog] = useState(/** @type {string | null} */ (null));
  /** @type {Ref<import("./moving.js").Under | null>} */
  const hover = useRef(null);
  const { box: tipBox, tip } = useTooltip();
  const painted = useFirstPaint("aiosched.grid", startedAt);
  /** @type {import("../canvas.js").Draw} */
  const draw = (on, view) => {
    const scroll = { x: box.current.scrollLeft, y: box.current.scrollTop };
    paintGrid(on, { ...scene, ...view, scroll, marked: hover.current ?? {} });
    painted({ cells: grid.runs.length * grid.rows.length });
  };
  const { canvas, redraw } = useCanvas(draw, [grid, ...selected]);
  useLayoutEffect(() => {
    box.current.scrollLeft = box.current.scrollWidth;
  }, [grid.runs.length]); // scroll to the newest runs
  useEffect(() => {
    const shown = box.current; // which is no longer there when the page has gone on
    let width = shown.clientWidth;
    const observer = new ResizeObserver(() => {
      if (shown.clientWidth === width) return;
      width = shown.clientWidth;
      if (place) bringIntoView(shown, left, place);
      else shown.scrollLeft = shown.scrollWidth;
    });
    observer.observe(shown);
    return () => observer.disconnect();
  }, [left, place?.row, place?.column]);
  useKey(
    "Arrow keys",
    "move in the grid, with Shift to select more; Enter opens, Space folds, c clears",
    () => {},
  );
  const total = { width: left + grid.runs.length * COLUMN + 8, height: HEAD + rows.length * ROW + 4 };
  return html`
    <div class=${place ? "gridview beside" : "gridview"}>
      <div
        class="gridbox"
        ref=${box}
        style=${{ height: `min(${total.height + 18}px, max(300px, calc(100vh - 300px)))` }}
        role="grid"
        tabindex="0"
        aria-label=${`Runs and tasks of ${dagId}`}
        aria-rowcount=${rows.length + 1}
        aria-colcount=${grid.runs.length}
        aria-activedescendant=${place ? "grid-focus" : undefined}
        onScroll=${redraw}
        onKeyDown=${keyListener(dagId, scene, { focus, clear: () => setDialog("clear"), leave })}
        ...${pointerListeners(dagId, scene, { box, hover, tip, redraw, focus })}
      >
        <div class="sticky" aria-hidden="true">
          <canvas ref=${canvas} />
        </div>
        <div
          class="spacer"
          aria-hidden="true"
          style=${{ width: `${total.width}px`, height: `${total.height}px` }}
        />
        <${FocusedCell} scene=${scene} />
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      <${SelectedPlace} dagId=${dagId} scene=${scene} dialog=${dialog} setDialog=${setDialog} />
    </div>
  `;
}

/**
 * The scene with the focus and the selection; `focus` and `leave` change them, `selected` changes with them.
 * @param {Api["Grid"]} grid
 * @param {Ref<HTMLElement>} box what scrolls
 */
function useSelection(grid, box) {
  const { focus: focused, move: setFocused } = useFocus(grid);
  const [anchor, setAnchor] = useState(/** @type {Place | null} */ (null)); // the opposite corner of the selection
  const scene = useScene(grid, focused, anchor);
  const { rows, place, left } = scene;
  const foldKey = [...scene.folded].join(",");
  useEffect(() => setAnchor(null), [grid.runs.length, foldKey]);
  /** @type {import("./moving.js").Move} */
  const focus = (row, column, extend) => {
    const next = nearest(scene, row, column);
    setAnchor(extend ? (anchor ?? place ?? next) : null);
    setFocused({ run: grid.runs[next.column].run_id, task: next.row < 0 ? null : rows[next.row].id });
    bringIntoView(box.current, left, next);
  };
  const leave = () => {
    setAnchor(null);
    setFocused({ run: null, task: null });
  };
  return { scene, selected: [foldKey, focused, anchor], focus, leave };
}

/**
 * What is selected, or how to select something.
 * @param {{ dagId: string, scene: Scene, dialog: string | null,
 *   setDialog: (dialog: string | null) => void }} props
 */
function SelectedPlace({ dagId, scene, dialog, setDialog }) {
  const { grid, rows, place, range } = scene;
  if (!place)
    return html`
      <p class="faint">
        Click a cell, or use the arrow keys in the grid: <kbd>Enter</kbd> opens, <kbd>Shift</kbd> selects more.
      </p>
    `;
  return html`
    <${Selected}
      dagId=${dagId}
      run=${grid.runs[place.column]}
      row=${rows[place.row]}
      cell=${place.row < 0 ? null : grid.cells[place.column][rows[place.row].index]}
      selection=${selectionOf(scene)}
      many=${isMany(range)}
      open=${() => openPlace(dagId, scene, place)}
      dialog=${dialog}
      setDialog=${setDialog}
    />
  `;
}

/** @param {import("./scene.js").Range | null} range */
const isMany = (range) => range !== null && (range.top !== range.bottom || range.from !== range.to);

/**
 * @param {Api["Grid"]} grid
 * @param {Focus} focused
 * @param {Place | null} anchor
 * @returns {Scene}
 */
function useScene(grid, focused, anchor) {
  const folded = foldedGroups();
  const { tasks } = query.value;
  const rows = useMemo(() => visibleRows(grid.rows, folded, tasks), [grid.rows, [...folded].join(","), tasks]);
  const narrow = innerWidth < 600;
  const left = useMemo(() => namesWidth(grid.rows, narrow), [grid.rows, narrow]);
  const longest = useMemo(() => Math.max(...grid.runs.map((run) => run.seconds ?? 0), 0.001), [grid.runs]);
  const place = placeOf(rows, grid.runs, focused);
  return { grid, rows, folded, place, range: rangeOf(place, anchor), left, longest };
}

/**
 * The focused run and task, written to the query string after a short delay; at first the task of the address in the
 * newest run, or the last failure.
 * @param {Api["Grid"]} grid
 */
function useFocus(grid) {
  const { run = null, task = null } = query.value;
  const [begun] = useState(() => {
    if (task !== null) return { run: grid.runs.at(-1)?.run_id ?? null, task };
    return query.value.before ? null : lastFailure(grid);
  });
  const [focus, setFocus] = useState(/** @type {Focus} */ ({ run, task }));
  const [chosen, setChosen] = useState(false);
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  useEffect(() => {
    if (!timer.current) setFocus({ run, task });
  }, [run, task]); // back and forward navigation
  useEffect(() => () => clearTimeout(timer.current), []);
  /** @param {Focus} next */
  const move = (next) => {
    setFocus(next);
    setChosen(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = undefined;
      setQuery(next);
    }, 150);
  };
  return { focus: focus.run === null && !chosen ? (begun ?? focus) : focus, move };
}

/**
 * The focused cell for screen readers, which cannot read the canvas.
 * @param {{ scene: Scene }} props
 */
function FocusedCell({ scene }) {
  const { place } = scene;
  return html`
    <div role="row" class="hidden-text" aria-rowindex=${place ? place.row + 2 : 1}>
      <div
        role="gridcell"
        id="grid-focus"
        aria-colindex=${place ? place.column + 1 : 1}
        aria-selected=${place ? "true" : "false"}
      >
        ${place ? placeSentence(scene, place) : "Use the arrow keys to go through runs and tasks."}
      </div>
    </div>
  `;
}
