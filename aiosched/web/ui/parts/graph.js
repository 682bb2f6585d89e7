// The graph of a DAG on a canvas: boxes and lines where the server put them, with the states of a run, pan and zoom.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { at, useResource } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { go, path, query, setQuery } from "../lib/router.js";
import { byState, stateOf, worst } from "../lib/states.js";
import { Empty, Failure, Link, Loading, State } from "./basics.js";
import { clip, sprite, useCanvas, useTooltip } from "./canvas.js";
import { useRunResource } from "./gantt.js";
import { foldedGroups, toggleFold } from "./grid.js";
import { RunPicker } from "./runs.js";

const MARGIN = 24;
const SMALLEST = 0.04;
const LARGEST = 2.5;

export function GraphTab({ dagId }) {
  const { run: runId, critical } = query.value;
  const fold = [...foldedGroups()];
  const begun = useMemo(() => performance.now(), [dagId]);
  const run = useResource(
    runId ? at("dags", dagId, "runs", runId) : null,
    {},
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dagId },
  );
  const graph = useRunResource(at("dags", dagId, "graph"), dagId, run.data.value, { run: runId, fold });
  const kept = useRef(null); // the picture stays while a group folds
  if (graph.data.value) kept.current = graph.data.value;
  const data = graph.data.value ?? kept.current;
  return html`
    <div class="stack">
      <div class="row">
        <${RunPicker} dagId=${dagId} none="none: only the shape" />
        ${runId && html`
          <label class="row soft">
            <input
              type="checkbox"
              checked=${critical === "1"}
              onChange=${(e) => setQuery({ critical: e.target.checked ? "1" : null })}
            />${" "}
            Critical path
          </label>
        `}
        ${run.data.value && html`<${State} name=${run.data.value.state} />`}
        ${data && html`<${Find} nodes=${data.nodes} />`}
      </div>
      ${graph.error.value && !graph.data.value ? html`
        <${Failure} error=${graph.error.value} retry=${graph.reload} />
      ` : !data ? html`
        <${Loading} lines=${8} />
      ` : data.nodes.length === 0 ? html`
        <${Empty} title="This DAG has no task">Add one to its file.<//>
      ` : html`
        <${Graph} dagId=${dagId} graph=${data} begun=${begun} />
      `}
    </div>
  `;
}

/** Jump to a task by name. */
function Find({ nodes }) {
  const choose = (event) => {
    const found = nodes.find((node) => node.id === event.target.value);
    if (found) {
      setQuery({ task: found.id, goto: "1" });
      event.target.blur();
    }
  };
  return html`
      <input
        class="input"
        type="search"
        list="graph-nodes"
        placeholder="Find a task"
        aria-label="Find a task"
        onInput=${choose}
      />
      <datalist id="graph-nodes">
        ${nodes.slice(0, 2000).map((node) => html`
          <option value=${node.id} />
        `)}
      </datalist>
  `;
}

const describe = (node) =>
  [
    node.id,
    node.kind === "group" ? "group" : node.operator,
    node.is_mapped && "mapped",
    node.trigger_rule && node.trigger_rule !== "all_success" && `trigger rule ${node.trigger_rule}`,
    node.counts &&
      Object.entries(node.counts)
        .map(([name, n]) => (node.kind === "group" || node.is_mapped ? `${n} ` : "") + stateOf(name).label)
        .join(", "),
  ].filter(Boolean);

function Graph({ dagId, graph, begun }) {
  const { critical, run: runId } = query.value;
  const byId = useMemo(() => new Map(graph.nodes.map((node) => [node.id, node])), [graph]);
  const bounds = useMemo(
    () =>
      graph.edges.map(({ points }) => [
        Math.min(...points.map(([x]) => x)),
        Math.min(...points.map(([, y]) => y)),
        Math.max(...points.map(([x]) => x)),
        Math.max(...points.map(([, y]) => y)),
      ]),
    [graph],
  );
  const on_path = useMemo(() => new Set(graph.critical_path), [graph]);
  const view = useRef(null);
  const size = useRef({ width: 0, height: 0 });
  const drag = useRef(null);
  const hover = useRef(null);
  const painted = useRef(false);
  const [chosen, setChosen] = useState(query.value.task ?? null);
  const { box: tipBox, tip } = useTooltip();
  const selected = byId.get(chosen);

  const fit = () => {
    const { width, height } = size.current;
    const scale = Math.max(
      SMALLEST,
      Math.min(1.25, (width - 2 * MARGIN) / graph.width, (height - 2 * MARGIN) / graph.height),
    );
    view.current = { scale, x: (width - graph.width * scale) / 2, y: (height - graph.height * scale) / 2 };
  };
  const draw = (on, { width, height, density, colours }) => {
    size.current = { width, height };
    if (!view.current) {
      fit();
      if (view.current.scale < 0.35 && graph.nodes.length > 60)
        view.current = { scale: 0.5, x: MARGIN, y: (height - graph.height * 0.5) / 2 }; // begin where it begins
    }
    const { scale, x, y } = view.current;
    const dim = critical === "1" && on_path.size > 0;
    const seen = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
    const visible = (a, b, c, d) => c >= seen.left && a <= seen.right && d >= seen.top && b <= seen.bottom;
    on.save();
    on.translate(x, y);
    on.scale(scale, scale);
    for (const node of graph.nodes)
      if (
        node.kind === "group" &&
        !node.is_folded &&
        visible(node.x, node.y, node.x + node.width, node.y + node.height)
      ) {
        on.fillStyle = colours.sunken;
        on.globalAlpha = 0.7;
        on.beginPath();
        on.roundRect(node.x, node.y, node.width, node.height, 8);
        on.fill();
        on.globalAlpha = 1;
        on.strokeStyle = node.id === chosen ? colours.accent : colours.line;
        on.lineWidth = (node.id === chosen ? 2 : 1) / Math.min(scale, 1);
        on.stroke();
        if (scale > 0.3) {
          on.fillStyle = colours.soft;
          on.font = `600 12px ${colours.sans}`;
          on.textBaseline = "middle";
          on.textAlign = "left";
          on.fillText(`▾ ${clip(on, node.label, node.width - 30)}`, node.x + 8, node.y + 14);
        }
      }
    lines(on, { colours, scale, dim, visible });
    for (const node of graph.nodes)
      if (
        (node.kind === "task" || node.is_folded) &&
        visible(node.x, node.y, node.x + node.width, node.y + node.height)
      )
        box(on, node, { colours, scale, density, dim });
    on.restore();
    if (!painted.current) {
      painted.current = true;
      performance.measure("aiosched.graph", {
        start: begun,
        end: performance.now(),
        detail: { nodes: graph.nodes.length },
      });
    }
  };
  const lines = (on, { colours, scale, dim, visible }) => {
    // all lines of one look as one path: strokes are what costs
    const seen = graph.edges.filter((_, i) => visible(...bounds[i]));
    const look = ({ source, target }) =>
      dim && on_path.has(source) && on_path.has(target)
        ? "critical"
        : source === chosen || target === chosen
          ? "near"
          : "plain";
    const colour = { plain: colours.strong, near: colours.accent, critical: colours.text };
    for (const kind of ["plain", "near", "critical"]) {
      const alike = seen.filter((edge) => look(edge) === kind);
      if (!alike.length) continue;
      on.globalAlpha = dim && kind === "plain" ? 0.25 : 1;
      on.strokeStyle = on.fillStyle = colour[kind];
      on.lineWidth = (kind === "plain" ? 1.2 : 2) / Math.max(Math.min(scale, 1), 0.3);
      on.beginPath();
      for (const { points } of alike) {
        on.moveTo(...points[0]);
        for (let i = 1; i < points.length; i++) {
          const [ax, ay] = points[i - 1];
          const [bx, by] = points[i];
          const middle = (ax + bx) / 2;
          on.bezierCurveTo(middle, ay, middle, by, bx, by);
        }
      }
      on.stroke();
      if (scale <= 0.35) continue;
      on.beginPath();
      for (const { points } of alike) {
        const [x, y] = points.at(-1);
        on.moveTo(x, y);
        on.lineTo(x - 7, y - 3.5);
        on.lineTo(x - 7, y + 3.5);
        on.closePath();
      }
      on.fill();
    }
    on.globalAlpha = 1;
    if (scale > 0.35) for (const { label, points } of seen) if (label) named(on, label, points, colours);
  };
  const named = (on, label, points, colours) => {
    const half = points.length >> 1;
    const [ax, ay] = points[half - (points.length % 2 ? 0 : 1)];
    const [bx, by] = points[half];
    const x = (ax + bx) / 2;
    const y = (ay + by) / 2;
    on.font = `11px ${colours.sans}`;
    on.textAlign = "center";
    on.textBaseline = "middle";
    const width = on.measureText(label).width + 8;
    on.fillStyle = colours.surface;
    on.fillRect(x - width / 2, y - 8, width, 16);
    on.fillStyle = colours.soft;
    on.fillText(label, x, y);
  };
  const box = (on, node, { colours, scale, density, dim }) => {
    const state = node.counts ? worst(node.counts) : null;
    const lit = !dim || on_path.has(node.id);
    const total = node.counts ? Object.values(node.counts).reduce((sum, n) => sum + n, 0) : 0;
    on.globalAlpha = lit ? 1 : 0.4;
    on.fillStyle = colours.raised;
    on.beginPath();
    on.roundRect(node.x, node.y, node.width, node.height, 6);
    on.fill();
    on.strokeStyle = node.id === chosen ? colours.accent : state ? colours.state[state] : colours.strong;
    on.lineWidth =
      (node.id === chosen || (dim && lit) ? 2.5 : hover.current === node.id ? 2 : 1.4) /
      Math.max(Math.min(scale, 1), 0.35);
    on.stroke();
    if (node.is_folded || node.is_mapped) {
      on.beginPath();
      on.moveTo(node.x + 6, node.y + node.height + 3);
      on.lineTo(node.x + node.width - 6, node.y + node.height + 3);
      on.stroke();
    }
    if (scale < 0.3) {
      if (state) {
        on.fillStyle = colours.state[state];
        on.fillRect(node.x, node.y, 12, node.height);
      }
      on.globalAlpha = 1;
      return;
    }
    let text = node.x + 9;
    if (state) {
      on.drawImage(sprite(colours, state, 16, density * 2), node.x + 7, node.y + node.height / 2 - 8, 16, 16);
      text += 19;
    }
    on.fillStyle = colours.text;
    on.font = `${node.is_folded ? "600 " : ""}12px ${colours.sans}`;
    on.textAlign = "left";
    on.textBaseline = "middle";
    on.fillText(
      clip(on, (node.is_folded ? "▸ " : "") + node.label, node.x + node.width - text - 3),
      text,
      node.y + node.height / 2 + 0.5,
    );
    if (node.is_folded || node.is_mapped)
      badge(on, node, total ? `× ${total}` : node.is_folded ? "group" : "mapped", colours);
    on.globalAlpha = 1;
  };
  const badge = (on, node, words, colours) => {
    // on the upper edge, so that it takes no room from the name
    on.font = `10px ${colours.sans}`;
    const width = on.measureText(words).width + 8;
    const x = node.x + node.width - width - 6;
    on.fillStyle = colours.surface;
    on.beginPath();
    on.roundRect(x, node.y - 7, width, 13, 6);
    on.fill();
    on.strokeStyle = colours.strong;
    on.lineWidth = 1;
    on.stroke();
    on.fillStyle = colours.soft;
    on.fillText(words, x + 4, node.y);
  };
  const { canvas, redraw } = useCanvas(draw, [graph, chosen, critical]);
  useKey("+ − 0", "zoom the graph, fit it", () => {});

  const zoom = (factor, px = size.current.width / 2, py = size.current.height / 2) => {
    const { scale, x, y } = view.current;
    const next = Math.max(SMALLEST, Math.min(LARGEST, scale * factor));
    view.current = { scale: next, x: px - ((px - x) / scale) * next, y: py - ((py - y) / scale) * next };
    redraw();
  };
  const show = (node) => {
    // bring it into view
    const { scale, x, y } = view.current;
    const { width, height } = size.current;
    const left = node.x * scale + x;
    const top = node.y * scale + y;
    if (left < 10 || top < 10 || left + node.width * scale > width - 10 || top + node.height * scale > height - 10)
      view.current = {
        scale: Math.max(scale, 0.5),
        x: width / 2 - (node.x + node.width / 2) * Math.max(scale, 0.5),
        y: height / 2 - (node.y + node.height / 2) * Math.max(scale, 0.5),
      };
    redraw();
  };
  const choose = (id) => {
    setChosen(id);
    setQuery({ task: id });
  };
  useEffect(() => {
    if (query.value.goto !== "1") return;
    setQuery({ goto: null });
    const found = byId.get(query.value.task);
    if (found && view.current) {
      setChosen(found.id);
      show(found);
      canvas.current.parentElement.focus();
    }
  });
  const nodeAt = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    const px = (event.clientX - frame.left - view.current.x) / view.current.scale;
    const py = (event.clientY - frame.top - view.current.y) / view.current.scale;
    for (let i = graph.nodes.length - 1; i >= 0; i--) {
      // inner ones stand behind their groups in the list
      const node = graph.nodes[i];
      const height = node.kind === "group" && !node.is_folded ? 26 : node.height;
      if (px >= node.x && px <= node.x + node.width && py >= node.y && py <= node.y + height) return node;
    }
    return null;
  };
  const open = (node) => {
    if (node.kind === "group") toggleFold(node.id);
    else if (runId) go(path("dags", dagId, "runs", runId, "tasks", node.id));
  };
  const onDown = (event) => {
    if (!view.current || event.button || event.target.closest("button")) return;
    drag.current = { x: event.clientX, y: event.clientY, moved: false };
    canvas.current.parentElement.setPointerCapture(event.pointerId);
  };
  const onMove = (event) => {
    if (!view.current) return;
    if (drag.current) {
      const dx = event.clientX - drag.current.x;
      const dy = event.clientY - drag.current.y;
      if (drag.current.moved || Math.abs(dx) + Math.abs(dy) > 3) {
        view.current = { ...view.current, x: view.current.x + dx, y: view.current.y + dy };
        drag.current = { x: event.clientX, y: event.clientY, moved: true };
        tip.hide();
        redraw();
      }
      return;
    }
    const node = nodeAt(event);
    if (node?.id !== hover.current) {
      hover.current = node?.id ?? null;
      redraw();
      canvas.current.parentElement.style.cursor = node ? "pointer" : "";
    }
    if (node) tip.show(describe(node), event);
    else tip.hide();
  };
  const onUp = (event) => {
    const was = drag.current;
    drag.current = null;
    if (!was || was.moved) return;
    const node = nodeAt(event);
    if (node?.kind === "group" && node.id === chosen) toggleFold(node.id);
    else choose(node?.id ?? null);
  };
  const onWheel = (event) => {
    event.preventDefault();
    const frame = canvas.current.getBoundingClientRect();
    tip.hide();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - frame.left, event.clientY - frame.top);
  };
  useEffect(() => {
    // Preact's own listeners are passive for the wheel
    const target = canvas.current.parentElement;
    target.addEventListener("wheel", onWheel, { passive: false });
    return () => target.removeEventListener("wheel", onWheel);
  });
  const step = (key) => {
    if (!selected) return graph.nodes.find((node) => node.kind === "task" || node.is_folded);
    const middle = selected.y + selected.height / 2;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const ids = graph.edges
        .filter((edge) => (key === "ArrowLeft" ? edge.target === chosen : edge.source === chosen))
        .map((edge) => (key === "ArrowLeft" ? edge.source : edge.target));
      return ids.map((id) => byId.get(id)).sort((a, b) => Math.abs(a.y - middle) - Math.abs(b.y - middle))[0];
    }
    const same = graph.nodes.filter(
      (node) =>
        node.id !== chosen &&
        (node.kind === "task" || node.is_folded) &&
        node.x < selected.x + selected.width &&
        node.x + node.width > selected.x &&
        (key === "ArrowUp" ? node.y < selected.y : node.y > selected.y),
    );
    return same.sort((a, b) => Math.abs(a.y - selected.y) - Math.abs(b.y - selected.y))[0];
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !view.current) return;
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") {
      fit();
      redraw();
    } else if (event.key.startsWith("Arrow")) {
      const next = step(event.key);
      if (next) {
        choose(next.id);
        show(next);
      }
    } else if ((event.key === "Enter" || event.key === " ") && selected) open(selected);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`
    <div>
      <div
        class="graphbox"
        style=${{
          height: `clamp(260px, ${Math.round(graph.height * 1.25 + 90)}px, max(300px, calc(100vh - 300px)))`,
        }}
        role="application"
        tabindex="0"
        aria-label=${`Graph of ${dagId}: ${graph.nodes.length} boxes. Arrow keys follow the lines, plus and minus zoom, 0 fits.`}
        aria-describedby="graph-chosen"
        onKeyDown=${onKey}
        onPointerDown=${onDown}
        onPointerMove=${onMove}
        onPointerUp=${onUp}
        onPointerLeave=${() => {
          hover.current = null;
          tip.hide();
          redraw();
        }}
        onDblClick=${(e) => {
          const node = nodeAt(e);
          if (node?.kind === "task") open(node);
        }}
      >
        <canvas ref=${canvas} aria-hidden="true" />
        <div class="zoom row">
          <button class="button small" aria-label="Zoom in" onClick=${() => zoom(1.25)}>
            +
          </button>
          <button class="button small" aria-label="Zoom out" onClick=${() => zoom(0.8)}>
            −
          </button>
          <button
            class="button small"
            onClick=${() => {
              fit();
              redraw();
            }}
          >
            Fit
          </button>
        </div>
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      <section class="selected card" aria-label="Selected" aria-live="polite" id="graph-chosen">
        ${selected ? html`
          <div class="row apart">
            <div class="row">
              <b>${selected.id}</b>
              ${describe(selected)
                .slice(1, selected.counts ? -1 : undefined)
                .map((words) => html`
                  <span class="soft">${words}</span>
                `)}
              ${selected.counts &&
                byState(selected.counts).map(([name, n]) => html`
                  <${State}
                    name=${name}
                    count=${selected.kind === "group" || selected.is_mapped ? n : undefined}
                  />
                `)}
            </div>
            ${selected.kind === "group" ? html`
              <button class="button small" onClick=${() => toggleFold(selected.id)}>
                ${selected.is_folded ? "Unfold" : "Fold"}
              </button>
            ` : (
              runId && html`
                <${Link} class="button small" to=${path("dags", dagId, "runs", runId, "tasks", selected.id)}>
                  Open
                <//>
              `
            )}
          </div>
        ` : html`
          <span class="faint">
            Click a box, or use the arrow keys in the graph. Click a group twice to fold it.
          </span>
        `}
      </section>
    </div>
  `;
}
