// The grid of a DAG: runs across, tasks down, on one canvas that draws only what is visible.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { at, may, useResource } from "../lib/api.js";
import { cellWords, patchRun, patchTasks, readCell, runLabel, runWords, visibleRows } from "../lib/gridmodel.js";
import { useKey } from "../lib/keys.js";
import { watchTopic } from "../lib/live.js";
import { go, path, query, setQuery } from "../lib/router.js";
import { RUN_STATES, RUN_TYPES, byState, runTypeWords, stateOf } from "../lib/states.js";
import { duration, instant } from "../lib/time.js";
import { ClearDialog, MarkDialog } from "./actions.js";
import { Empty, Failure, Link, Loading, State } from "./basics.js";
import { clip, sprite, useCanvas, useTooltip } from "./canvas.js";

const ROW = 22;
const COLUMN = 20;
const CELL = 16;
const HEAD = 78;
const BARS = 46;
const INDENT = 12;
const WATCHED = 5; // running runs whose tasks are told live
const LIMITS = [30, 100, 365];

/** The folded groups in the address. */
export const foldedGroups = () => new Set((query.value.fold ?? "").split(",").filter(Boolean));
export function toggleFold(id) {
  const folded = foldedGroups();
  if (!folded.delete(id)) folded.add(id);
  setQuery({ fold: [...folded].sort().join(",") });
}

/** The grid's data, kept fresh: news of running runs are applied to it, everything else is read again. */
function useGrid(dagId, params) {
  const watched = useRef(new Set()).current;
  const later = useRef(null);
  const grid = useResource(at("dags", dagId, "grid"), params, {
    kinds: ["run", "task", "dag"],
    concerns: (patch) => patch.kind !== "run" || patch.dag_id === dagId,
    onNews: (data, patch) => {
      const next =
        patch.kind === "run"
          ? patchRun(data, patch, watched)
          : patch.kind === "task"
            ? patchTasks(data, patch)
            : undefined;
      if (next) return next;
      later.current ??= setTimeout(() => {
        later.current = null;
        grid.reload();
      }, 700); // news come in flocks
      return data;
    },
  });
  const running = (grid.data.value?.runs ?? [])
    .filter((run) => run.state === "running" || run.state === "queued")
    .slice(-WATCHED)
    .map((run) => run.key)
    .join(" ");
  useEffect(() => {
    const keys = running.split(" ").filter(Boolean).map(Number);
    const ends = keys.map((key) => {
      watched.add(key);
      return watchTopic(`run:${key}`);
    });
    return () => {
      ends.forEach((end) => end());
      keys.forEach((key) => watched.delete(key));
    };
  }, [running]);
  useEffect(() => () => clearTimeout(later.current), []);
  return grid;
}

export function GridTab({ dagId }) {
  const { limit = "30", state, type, before } = query.value;
  const begun = useMemo(() => performance.now(), [dagId, limit, state, type, before]);
  const grid = useGrid(dagId, { limit, state, run_type: type, cursor: before });
  const data = grid.data.value;
  return html`
    <div class="stack">
      <div class="row">
        <label class="row soft">
          Runs${" "}
          <select
            class="input"
            value=${limit}
            onChange=${(e) => setQuery({ limit: e.target.value === "30" ? null : e.target.value })}
          >
            ${LIMITS.map((n) => html`
              <option value=${n}>last ${n}</option>
            `)}
          </select>
        </label>
        <label class="row soft">
          State${" "}
          <select
            class="input"
            value=${state ?? ""}
            onChange=${(e) => setQuery({ state: e.target.value, before: null })}
          >
            <option value="">any</option>
            ${RUN_STATES.map((name) => html`
              <option value=${name}>${stateOf(name).label}</option>
            `)}
          </select>
        </label>
        <label class="row soft">
          Type${" "}
          <select
            class="input"
            value=${type ?? ""}
            onChange=${(e) => setQuery({ type: e.target.value, before: null })}
          >
            <option value="">any</option>
            ${RUN_TYPES.map((type) => html`
              <option value=${type}>${runTypeWords(type)}</option>
            `)}
          </select>
        </label>
        ${data?.next_cursor && html`
          <button class="button" onClick=${() => setQuery({ before: data.next_cursor }, { push: true })}>
            ‹ Older
          </button>
        `}
        ${before && html`
          <button class="button" onClick=${() => setQuery({ before: null })}>
            Newest ›
          </button>
        `}
      </div>
      ${data === null ? (
        grid.error.value ? html`
          <${Failure} error=${grid.error.value} retry=${grid.reload} />
        ` : html`
          <${Loading} lines=${8} />
        `
      ) : data.runs.length === 0 ? html`
        <${Empty}
          title=${state || type ? "No such run" : "No run yet"}
          command=${state || type ? null : `aiosched dags trigger ${dagId}`}
        >
          ${state || type ? "Another filter may show some." : "Trigger one, or wait for the next scheduled one."}
        <//>
      ` : html`
        <${Grid} dagId=${dagId} grid=${data} begun=${begun} />
      `}
    </div>
  `;
}

const between = (n, low, high) => Math.max(low, Math.min(high, n));

/** The run and the task in focus: kept here, and soon after in the address. */
function useFocus() {
  const { run = null, task = null } = query.value;
  const [focus, setFocus] = useState({ run, task });
  const due = useRef(null);
  useEffect(() => {
    if (!due.current) setFocus({ run, task });
  }, [run, task]); // the way back
  useEffect(() => () => clearTimeout(due.current), []);
  return [
    focus,
    (next) => {
      setFocus(next);
      clearTimeout(due.current);
      due.current = setTimeout(() => {
        due.current = null;
        setQuery(next);
      }, 150);
    },
  ];
}

/** Where the focus is: a row (-1: the run itself) and a column. */
function placeOf(rows, runs, focus) {
  const column = runs.findIndex((run) => run.run_id === focus.run);
  const row = focus.task === null ? -1 : rows.findIndex((one) => one.id === focus.task);
  return column < 0 || (row < 0 && focus.task !== null) ? null : { row, column };
}

function Grid({ dagId, grid, begun }) {
  const folded = foldedGroups();
  const foldKey = [...folded].join(",");
  const rows = useMemo(() => visibleRows(grid.rows, folded), [grid.rows, foldKey]);
  const { runs, cells } = grid;
  const box = useRef(null);
  const painted = useRef(false);
  const hover = useRef(null);
  const [anchor, setAnchor] = useState(null); // the other corner of a selection
  const [dialog, setDialog] = useState(null);
  const [focused, setFocused] = useFocus();
  const place = placeOf(rows, runs, focused);
  const narrow = innerWidth < 600;
  const left = useMemo(
    () =>
      between(
        Math.max(
          ...grid.rows.map((row) => row.label.length * 7.6 + row.depth * INDENT + (row.is_mapped ? 56 : 38)),
        ),
        110,
        narrow ? 130 : 300,
      ),
    [grid.rows, narrow],
  );
  const longest = useMemo(() => Math.max(...runs.map((run) => run.seconds ?? 0), 0.001), [runs]);
  const { box: tipBox, tip } = useTooltip();
  const range =
    place && anchor
      ? {
          top: Math.min(place.row, anchor.row),
          bottom: Math.max(place.row, anchor.row),
          from: Math.min(place.column, anchor.column),
          to: Math.max(place.column, anchor.column),
        }
      : null;
  const total = { width: left + runs.length * COLUMN + 8, height: HEAD + rows.length * ROW + 4 };

  const draw = (on, view) => {
    const scroll = { x: box.current.scrollLeft, y: box.current.scrollTop };
    const { colours, density, width, height } = view;
    const firstRow = Math.max(0, Math.floor(scroll.y / ROW));
    const lastRow = Math.min(rows.length - 1, Math.ceil((scroll.y + height - HEAD) / ROW));
    const firstColumn = Math.max(0, Math.floor(scroll.x / COLUMN));
    const lastColumn = Math.min(runs.length - 1, Math.ceil((scroll.x + width - left) / COLUMN));
    const xOf = (column) => left + column * COLUMN - scroll.x;
    const yOf = (row) => HEAD + row * ROW - scroll.y;
    const inRange = (row, column) =>
      range && row >= range.top && row <= range.bottom && column >= range.from && column <= range.to;
    const marked = hover.current ?? {};
    on.save();
    on.beginPath();
    on.rect(left, HEAD, width - left, height - HEAD);
    on.clip();
    for (let row = firstRow; row <= lastRow; row++) {
      if (marked.row === row || place?.row === row) {
        on.fillStyle = colours.sunken;
        on.fillRect(left, yOf(row), width - left, ROW);
      }
    }
    for (let column = firstColumn; column <= lastColumn; column++) {
      if (marked.column === column || place?.column === column) {
        on.fillStyle = colours.sunken;
        on.fillRect(xOf(column), HEAD, COLUMN, height - HEAD);
      }
      for (let row = firstRow; row <= lastRow; row++) {
        const cell = readCell(cells[column][rows[row].index]);
        const x = xOf(column) + (COLUMN - CELL) / 2;
        const y = yOf(row) + (ROW - CELL) / 2;
        if (inRange(row, column)) {
          on.fillStyle = colours.accentSoft;
          on.fillRect(xOf(column), yOf(row), COLUMN, ROW);
        }
        if (!cell) {
          on.fillStyle = colours.line;
          on.fillRect(x + CELL / 2 - 1, y + CELL / 2 - 1, 2, 2);
          continue;
        }
        const count =
          rows[row].kind === "task" && cell.counts ? (cell.total > 99 ? "99+" : String(cell.total)) : undefined;
        on.drawImage(sprite(colours, cell.state, CELL, density, count), x, y, CELL, CELL);
        if (cell.counts && Object.keys(cell.counts).length > 1) shares(on, cell, colours, x, y + CELL - 4);
      }
    }
    if (place && place.row >= 0) {
      on.strokeStyle = colours.accent;
      on.lineWidth = 2;
      on.strokeRect(xOf(place.column) + 1, yOf(place.row) + 1, COLUMN - 2, ROW - 2);
    }
    on.restore();
    heads(on, { ...view, firstColumn, lastColumn, xOf, marked, inRange });
    labels(on, { ...view, firstRow, lastRow, yOf, marked });
    if (!painted.current) {
      painted.current = true;
      performance.measure("aiosched.grid", {
        start: begun,
        end: performance.now(),
        detail: { cells: runs.length * grid.rows.length },
      });
    }
  };

  const heads = (on, { width, colours, firstColumn, lastColumn, xOf, marked, inRange, density }) => {
    on.save();
    on.beginPath();
    on.rect(left, 0, width - left, HEAD);
    on.clip();
    on.fillStyle = colours.surface;
    on.fillRect(left, 0, width - left, HEAD);
    on.font = `10.5px ${colours.sans}`;
    on.textBaseline = "alphabetic";
    on.textAlign = "left";
    for (let column = firstColumn - 6; column <= lastColumn; column++) {
      if (!runs[column]) continue;
      const run = runs[column];
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
    on.fillStyle = colours.line;
    on.fillRect(left, HEAD - 1, width, 1);
    on.restore();
  };

  const labels = (on, { height, colours, firstRow, lastRow, yOf, marked }) => {
    on.save();
    on.fillStyle = colours.surface;
    on.fillRect(0, 0, left, height);
    on.fillStyle = colours.line;
    on.fillRect(left - 1, 0, 1, height);
    on.fillRect(0, HEAD - 1, left, 1);
    on.font = `10.5px ${colours.sans}`;
    on.fillStyle = colours.faint;
    on.textBaseline = "alphabetic";
    on.textAlign = "right";
    on.fillText(`longest ${duration(longest)}`, left - 8, 26);
    on.beginPath();
    on.rect(0, HEAD, left - 1, height - HEAD);
    on.clip();
    on.textAlign = "left";
    on.textBaseline = "middle";
    for (let row = firstRow; row <= lastRow; row++) {
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
      on.fillText(
        clip(on, one.label, left - x - 22 - (tail ? 16 : 0)) + tail,
        x + (group ? 14 : 2),
        y + ROW / 2 + 0.5,
      );
    }
    on.restore();
  };

  const { canvas, redraw } = useCanvas(draw, [grid, foldKey, focused, anchor]);
  useEffect(() => {
    setAnchor(null);
  }, [grid.runs.length, foldKey]);
  useLayoutEffect(() => {
    box.current.scrollLeft = box.current.scrollWidth;
  }, [runs.length]); // the newest runs first
  useKey(
    "Arrow keys",
    "move in the grid, with Shift to select more; Enter opens, Space folds, c clears",
    () => {},
  );

  const focus = (row, column, extend) => {
    const next = { row: between(row, -1, rows.length - 1), column: between(column, 0, runs.length - 1) };
    setAnchor(extend ? (anchor ?? place ?? next) : null);
    setFocused({ run: runs[next.column].run_id, task: next.row < 0 ? null : rows[next.row].id });
    const at = box.current;
    const x = next.column * COLUMN;
    const y = next.row * ROW;
    if (x < at.scrollLeft) at.scrollLeft = x;
    else if (x + COLUMN > at.scrollLeft + at.clientWidth - left)
      at.scrollLeft = x + COLUMN - at.clientWidth + left;
    if (next.row >= 0 && y < at.scrollTop) at.scrollTop = y;
    else if (y + ROW > at.scrollTop + at.clientHeight - HEAD) at.scrollTop = y + ROW - at.clientHeight + HEAD;
  };
  const open = ({ row, column }) => {
    if (row < 0) go(path("dags", dagId, "runs", runs[column].run_id));
    else if (rows[row].kind === "group") toggleFold(rows[row].id);
    else if (rows[row].is_mapped)
      go(`${path("dags", dagId, "runs", runs[column].run_id)}?tab=tasks&task=${encodeURIComponent(rows[row].id)}`);
    else go(path("dags", dagId, "runs", runs[column].run_id, "tasks", rows[row].id));
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = place ?? { row: -1, column: runs.length };
    const steps = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -runs.length],
      End: [0, runs.length],
    };
    if (steps[event.key]) focus(now.row + steps[event.key][0], now.column + steps[event.key][1], event.shiftKey);
    else if (event.key === "Enter" && place) open(place);
    else if (event.key === " " && place && rows[place.row]?.kind === "group") toggleFold(rows[place.row].id);
    else if (event.key === "c" && place && may("operator")) setDialog("clear");
    else if (event.key === "Escape") {
      setAnchor(null);
      setFocused({ run: null, task: null });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const under = (event) => {
    const frame = box.current.getBoundingClientRect();
    const x = event.clientX - frame.left - box.current.clientLeft;
    const y = event.clientY - frame.top - box.current.clientTop;
    const column = x < left ? null : Math.floor((x - left + box.current.scrollLeft) / COLUMN);
    const row = y < HEAD ? -1 : Math.floor((y - HEAD + box.current.scrollTop) / ROW);
    return {
      column: column === null || column >= runs.length ? null : column,
      row: row >= rows.length ? null : row,
      label: x < left,
    };
  };
  const onMove = (event) => {
    const now = under(event);
    if (now.column === hover.current?.column && now.row === hover.current?.row) {
      if (now.column !== null && now.row !== null) tip.show(words(now), event);
      return;
    }
    hover.current = now;
    redraw();
    box.current.style.cursor =
      (now.column !== null && now.row !== null) || (now.label && rows[now.row]?.kind === "group") ? "pointer" : "";
    if (now.column !== null && now.row !== null) tip.show(words(now), event);
    else if (now.label && rows[now.row])
      tip.show(
        [rows[now.row].id, rows[now.row].kind === "group" ? "group" : rows[now.row].is_mapped && "mapped task"],
        event,
      );
    else tip.hide();
  };
  const words = ({ row, column }) => {
    const run = runs[column];
    const when = `${instant(runLabel(run))} · ${run.run_id}`;
    return row < 0
      ? [instant(runLabel(run)), run.run_id, ...runWords(run)]
      : [rows[row].id, cellWords(cells[column][rows[row].index]), when];
  };
  const onLeave = () => {
    hover.current = null;
    tip.hide();
    redraw();
  };
  const onClick = (event) => {
    const now = under(event);
    if (now.label && rows[now.row]?.kind === "group") toggleFold(rows[now.row].id);
    else if (now.column !== null && now.row !== null) focus(now.row, now.column, event.shiftKey);
  };
  const onDouble = (event) => {
    const now = under(event);
    if (now.column !== null && now.row !== null) open(now);
  };

  const said = place && words(place).join(", ");
  return html`
    <div class="stack">
      <div
        class="gridbox"
        ref=${box}
        style=${{ height: `min(${total.height + 18}px, max(300px, calc(100vh - 300px)))` }}
        role="grid"
        tabindex="0"
        aria-label=${`Runs and tasks of ${dagId}`}
        aria-rowcount=${rows.length + 1}
        aria-colcount=${runs.length}
        aria-activedescendant=${place ? "grid-focus" : undefined}
        onScroll=${redraw}
        onKeyDown=${onKey}
        onMouseMove=${onMove}
        onMouseLeave=${onLeave}
        onClick=${onClick}
        onDblClick=${onDouble}
      >
        <div class="sticky" aria-hidden="true">
          <canvas ref=${canvas} />
        </div>
        <div
          class="spacer"
          aria-hidden="true"
          style=${{ width: `${total.width}px`, height: `${total.height}px` }}
        />
        <div role="row" class="hidden-text" aria-rowindex=${place ? place.row + 2 : 1}>
          <div
            role="gridcell"
            id="grid-focus"
            aria-colindex=${place ? place.column + 1 : 1}
            aria-selected=${place ? "true" : "false"}
          >
            ${said ?? "Use the arrow keys"}
          </div>
        </div>
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      ${place ? html`
        <${Selected}
          dagId=${dagId}
          run=${runs[place.column]}
          row=${rows[place.row]}
          cell=${place.row < 0 ? null : cells[place.column][rows[place.row].index]}
          selection=${selectionOf(rows, grid, place, range)}
          many=${range !== null && (range.top !== range.bottom || range.from !== range.to)}
          open=${() => open(place)}
          dialog=${dialog}
          setDialog=${setDialog}
        />
      ` : html`
        <p class="faint">
          Click a cell, or use the arrow keys in the grid: <kbd>Enter</kbd> opens, <kbd>Shift</kbd> selects more.
        </p>
      `}
    </div>
  `;
}

/** A thin line with the share of each state. */
function shares(on, cell, colours, x, y) {
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

/** What is selected as an action takes it: without `task_ids` whole runs; a group means the tasks in it. */
function selectionOf(rows, grid, place, range) {
  const area = range ?? { top: place.row, bottom: place.row, from: place.column, to: place.column };
  const run_ids = grid.runs.slice(area.from, area.to + 1).map((run) => run.run_id);
  if (area.top < 0) return { run_ids };
  const tasks = new Set();
  for (const { index } of rows.slice(area.top, area.bottom + 1)) {
    for (let i = index; i === index || grid.rows[i]?.depth > grid.rows[index].depth; i++)
      if (grid.rows[i].kind === "task") tasks.add(grid.rows[i].id);
  }
  return { run_ids, task_ids: [...tasks] };
}

function Selected({ dagId, run, row, cell, selection, many, open, dialog, setDialog }) {
  const close = () => setDialog(null);
  return html`
    <section class="selected card" aria-label="Selected">
      <div class="row apart">
        <div class="row">
          ${many ? html`
            <b>
              ${selection.task_ids
                ? `${selection.task_ids.length} ${selection.task_ids.length === 1 ? "task" : "tasks"}`
                : "All tasks"}${" "}
              in ${selection.run_ids.length} ${selection.run_ids.length === 1 ? "run" : "runs"}
            </b>
          ` : row ? html`
              <b>${row.id}</b>
              ${cell ? (
                typeof cell === "string" ? html`
                  <${State} name=${cell} />
                ` : (
                  byState(cell).map(([name, n]) => html`<${State} name=${name} count=${n} />`)
                )
              ) : html`
                <span class="soft">not in this run</span>
              `}
          ` : html`
              <b>Run</b>
              <${State} name=${run.state} />
          `}
          ${!many && html`
            <${Link} to=${path("dags", dagId, "runs", run.run_id)} class="clip">
              ${run.run_id}
            <//>
          `}
        </div>
        <div class="row">
          ${!many && html`
            <button class="button small" onClick=${open}>
              ${row?.kind === "group" ? "Fold or unfold" : "Open"}
            </button>
          `}
          ${may("operator") && html`
            <button class="button small" onClick=${() => setDialog("clear")}>
              Clear …
            </button>
          `}
          ${may("operator") && !many && row?.kind !== "group" && html`
            <button class="button small" onClick=${() => setDialog("mark")}>
              Mark …
            </button>
          `}
        </div>
      </div>
      ${dialog === "clear" && html`<${ClearDialog} dagId=${dagId} selection=${selection} onClose=${close} />`}
      ${dialog === "mark" && html`
        <${MarkDialog}
          dagId=${dagId}
          runId=${run.run_id}
          taskId=${row?.kind === "task" ? row.id : undefined}
          onClose=${close}
        />
      `}
    </section>
  `;
}
