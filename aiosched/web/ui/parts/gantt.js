// The Gantt chart of a run: every try as segments in time (scheduled, queued, running, deferred), on a canvas that draws what is visible.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { at, useResource } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { watchTopic } from "../lib/live.js";
import { taskName, taskPath } from "../lib/names.js";
import { go, path, query } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { duration, instant, now } from "../lib/time.js";
import { Empty, Failure, Link, Loading, Notice, State } from "./basics.js";
import { clip, useCanvas, useTooltip } from "./canvas.js";
import { RunPicker } from "./runs.js";

const ROW = 22;
const HEAD = 26;
const BAR = 12;
const STEPS = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800,
  604800,
];

/** Read a run's resource again, at most once a second while its tasks change. */
function useRunResource(address, dagId, run, params) {
  const due = useRef(null);
  const found = useResource(address, params, {
    kinds: ["task", "run"],
    concerns: (patch) =>
      patch.kind === "task" ? patch.run === run?.key : patch.dag_id === dagId && (!run || patch.key === run.key),
    onNews: (data) => {
      due.current ??= setTimeout(() => {
        due.current = null;
        found.reload();
      }, 1000);
      return data;
    },
  });
  const key = run && (run.state === "running" || run.state === "queued") ? run.key : null;
  useEffect(() => (key === null ? undefined : watchTopic(`run:${key}`)), [key]);
  useEffect(() => () => clearTimeout(due.current), []);
  return found;
}
export { useRunResource };

export function GanttTab({ dagId }) {
  const runId = query.value.run || "latest";
  const run = useResource(
    at("dags", dagId, "runs", runId),
    {},
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  const facts = run.data.value;
  const gantt = useRunResource(facts ? at("dags", dagId, "runs", facts.run_id, "gantt") : null, dagId, facts);
  const failed = run.error.value ?? gantt.error.value;
  return html`
    <div class="stack">
      <div class="row">
        <${RunPicker} dagId=${dagId} none="latest" />
        ${facts && html`
            <${State} name=${facts.state} />
            <${Link} to=${path("dags", dagId, "runs", facts.run_id)}>${facts.run_id}<//>
        `}
      </div>
      ${failed?.status === 404 ? html`
        <${Empty} title="No run yet" command=${`aiosched dags trigger ${dagId}`}>
          A run in time appears here when there is one.
        <//>
      ` : failed && !gantt.data.value ? html`
        <${Failure} error=${failed} retry=${run.reload} />
      ` : !gantt.data.value ? html`
        <${Loading} lines=${8} />
      ` : html`
          ${!gantt.data.value.complete && html`
            <${Notice} kind="warn">This run has more tries than are shown.<//>
          `}
          <${Chart} dagId=${dagId} run=${facts} items=${gantt.data.value.items} />
      `}
    </div>
  `;
}

const ms = (text) => (text ? Date.parse(text) : null);

const THIN = { scheduled: 4, queued: 4, deferred: 8 }; // pixels of what waits; what runs is as high as BAR

/** The segments of a try: `[kind, from, to]`; one that is not over goes on until now. */
export function segmentsOf(one, now) {
  const scheduled = ms(one.scheduled_at);
  const queued = ms(one.queued_at);
  const start = ms(one.start_date);
  const end = ms(one.end_date) ?? (start || queued || scheduled ? now : null);
  const found = [];
  if (scheduled !== null && (queued ?? start ?? end) > scheduled)
    found.push(["scheduled", scheduled, queued ?? start ?? end]);
  if (queued !== null) found.push(["queued", queued, start ?? end]);
  let from = start;
  for (const { since, until } of start === null ? [] : one.deferred) {
    // it ran, waited for a trigger, and ran on
    if (ms(since) > from) found.push(["running", from, ms(since)]);
    from = ms(until) ?? end;
    found.push(["deferred", ms(since), from]);
  }
  if (start !== null && (end > from || !one.deferred.length)) found.push([one.state ?? "running", from, end]);
  return found.filter(([, from, to]) => to >= from);
}

/** A bar chart of a run: `items` of the API's Gantt. Used by the page of a DAG and that of a run. */
export function Chart({ dagId, run, items }) {
  const live = run.state === "running" || run.state === "queued";
  const moment = live ? now.value : 0;
  const rows = useMemo(
    () =>
      items.map((item) => ({
        ...item,
        name: taskName(item),
        tries: item.tries.map((one) => ({
          ...one,
          segments: segmentsOf(one, moment || Date.parse(run.end_date ?? one.end_date ?? one.start_date ?? 0)),
        })),
      })),
    [items, moment],
  );
  const span = useMemo(() => {
    const all = rows.flatMap((row) => row.tries.flatMap((one) => one.segments));
    const from = all.reduce((least, [, a]) => Math.min(least, a), ms(run.start_date) ?? Infinity);
    const to = all.reduce((most, [, , b]) => Math.max(most, b), ms(run.end_date) ?? 0);
    return Number.isFinite(from) ? { from, to: Math.max(to, from + 50) } : null;
  }, [rows]);
  const box = useRef(null);
  const hover = useRef(null);
  const [chosen, setChosen] = useState(null);
  const { box: tipBox, tip } = useTooltip();
  const left = Math.max(
    110,
    Math.min(innerWidth < 600 ? 130 : 280, Math.max(0, ...rows.map((row) => row.name.length * 7.2 + 30))),
  );

  const draw = (on, { width, height, colours }) => {
    const scroll = box.current.scrollTop;
    const first = Math.max(0, Math.floor(scroll / ROW));
    const last = Math.min(rows.length - 1, Math.ceil((scroll + height - HEAD) / ROW));
    const room = width - left - 24;
    const scale = room / (span.to - span.from);
    const x = (time) => left + 6 + (time - span.from) * scale;
    const step = STEPS.find((seconds) => seconds * 1000 * scale > 80) ?? STEPS.at(-1);
    const decimals = step < 1;
    on.font = `10.5px ${colours.sans}`;
    on.textBaseline = "middle";
    on.fillStyle = colours.line;
    for (let time = span.from; time <= span.to; time += step * 1000) {
      on.fillRect(Math.round(x(time)), HEAD - 6, 1, height);
    }
    for (let row = first; row <= last; row++) {
      const y = HEAD + row * ROW - scroll;
      if (hover.current === row || chosen === row) {
        on.fillStyle = colours.sunken;
        on.fillRect(0, y, width, ROW);
      }
      for (const one of rows[row].tries)
        for (const [state, from, to] of one.segments) {
          const waiting = state in THIN;
          const high = THIN[state] ?? BAR;
          const w = Math.max(waiting ? 1 : 3, (to - from) * scale);
          on.fillStyle = colours.state[state] ?? colours.state.none;
          on.globalAlpha = waiting ? 0.55 : 1;
          on.beginPath();
          on.roundRect(x(from), y + (ROW - high) / 2, w, high, high / 4);
          on.fill();
          on.globalAlpha = 1;
          if (high > 4 && w > 18) {
            on.fillStyle = state === "deferred" ? colours.text : colours.glyph;
            on.textAlign = "left";
            on.fillText(
              one.try_number > 1 && !waiting ? `${stateOf(state).glyph} ${one.try_number}` : stateOf(state).glyph,
              x(from) + 4,
              y + ROW / 2 + 0.5,
            );
          }
        }
      on.font = `12.5px ${colours.sans}`;
      on.textAlign = "left";
      on.fillStyle = colours.soft;
      on.fillText(clip(on, rows[row].name, left - 20), 10, y + ROW / 2 + 0.5);
      on.font = `10.5px ${colours.sans}`;
    }
    on.fillStyle = colours.surface;
    on.fillRect(0, 0, width, HEAD - 4);
    on.fillStyle = colours.faint;
    on.textAlign = "left";
    for (let time = span.from, n = 0; time <= span.to; time += step * 1000, n++)
      if (x(time) < width - 60)
        on.fillText(
          n === 0
            ? instant(new Date(time)).slice(11)
            : `+${decimals ? (n * step).toFixed(1) + " s" : duration(n * step).replace(/\.0 s/, " s")}`,
          x(time) + 3,
          10,
        );
    on.fillStyle = colours.line;
    on.fillRect(0, HEAD - 4, width, 1);
    on.fillRect(left, 0, 1, height);
  };
  const { canvas, redraw } = useCanvas(draw, [rows, chosen]);
  useKey("↑ ↓", "move in the Gantt chart; Enter opens", () => {});
  if (!span || !rows.length)
    return html`<${Empty} title="Nothing has begun yet">The tasks of this run have not been scheduled.<//>`;

  const rowAt = (event) => {
    const row = Math.floor(
      (event.clientY - box.current.getBoundingClientRect().top - HEAD + box.current.scrollTop) / ROW,
    );
    return row >= 0 && row < rows.length ? row : null;
  };
  const words = (row) => [
    rows[row].name,
    ...rows[row].tries
      .slice(-4)
      .map(
        (one) =>
          `try ${one.try_number}: ${stateOf(one.state).label}${one.segments.map(([kind, from, to]) => `, ${THIN[kind] ? kind : "ran"} ${duration((to - from) / 1000)}`).join("")}`,
      ),
  ];
  const open = (row) => go(taskPath({ ...rows[row], dag_id: dagId, run_id: run.run_id }));
  const onKey = (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -rows.length, End: rows.length }[
      event.key
    ];
    if (by) {
      const row = Math.max(0, Math.min(rows.length - 1, (chosen ?? -1) + by));
      setChosen(row);
      box.current.scrollTop = Math.min(
        Math.max(box.current.scrollTop, (row + 1) * ROW - box.current.clientHeight + HEAD),
        row * ROW,
      );
    } else if (event.key === "Enter" && chosen !== null) open(chosen);
    else return;
    event.preventDefault();
  };
  const onMove = (event) => {
    const row = rowAt(event);
    if (row !== hover.current) {
      hover.current = row;
      redraw();
    }
    if (row === null) tip.hide();
    else tip.show(words(row), event);
  };
  return html`
    <div>
      <div
        class="gridbox"
        ref=${box}
        style=${{ height: `min(${HEAD + rows.length * ROW + 6}px, max(300px, calc(100vh - 300px)))` }}
        role="listbox"
        tabindex="0"
        aria-label="Tasks of the run in time"
        aria-activedescendant=${chosen === null ? undefined : "gantt-row"}
        onScroll=${redraw}
        onKeyDown=${onKey}
        onMouseMove=${onMove}
        onMouseLeave=${() => {
          hover.current = null;
          tip.hide();
          redraw();
        }}
        onClick=${(e) => setChosen(rowAt(e))}
        onDblClick=${(e) => {
          const row = rowAt(e);
          if (row !== null) open(row);
        }}
      >
        <div class="sticky" aria-hidden="true">
          <canvas ref=${canvas} />
        </div>
        <div class="spacer" aria-hidden="true" style=${{ height: `${HEAD + rows.length * ROW}px` }} />
        <div role="option" id="gantt-row" class="hidden-text" aria-selected=${chosen !== null ? "true" : "false"}>
          ${chosen === null ? "Use the arrow keys" : words(chosen).join(", ")}
        </div>
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      ${chosen !== null && rows[chosen] && html`
        <section class="selected card" aria-label="Selected">
          <div class="row apart">
            <div class="row">
              <b>${rows[chosen].name}</b>
              ${words(chosen)
                .slice(1)
                .map((line) => html`
                  <span class="soft">${line}</span>
                `)}
            </div>
            <button class="button small" onClick=${() => open(chosen)}>
              Open
            </button>
          </div>
        </section>
      `}
    </div>
  `;
}
