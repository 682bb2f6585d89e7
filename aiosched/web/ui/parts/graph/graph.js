// The graph of a DAG on a canvas: nodes and edges laid out by the server, with the states of a run, pan and zoom.
import { html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { useKey } from "../../lib/keys.js";
import { go, path, query, setQuery } from "../../lib/router.js";
import { useCanvas, useFirstPaint, useTooltip } from "../canvas.js";
import { toggleFold } from "../grid/folding.js";
import { Chosen, isNeighbour, neighbourPath } from "./chosen.js";
import { keyListener, usePointer, useWheel } from "./moving.js";
import { paintMap, shownByMap } from "./minimap.js";
import { paintGraph } from "./painting.js";
import { boundsOf, fitted, initialPosition, showing, zoomed } from "./scene.js";

/**
 * `startedAt` is the start time for the first-paint measure, from `performance.now()`.
 * @param {{ dagId: string, graph: Api["DagGraph"], startedAt: number, runId: string | undefined }} props
 *   `runId` is that of the run whose states are shown
 */
export function Graph({ dagId, graph, startedAt, runId }) {
  const { critical } = query.value;
  const bounds = useMemo(() => boundsOf(graph), [graph]);
  const onPath = useMemo(() => new Set(graph.critical_path), [graph]);
  const [chosen, setChosen] = useState(/** @type {string | null} */ (query.value.task ?? null));
  const selected = graph.nodes.find((node) => node.id === chosen);
  /** @type {Ref<import("./scene.js").Position>} */
  const position = useRef(null);
  const size = useRef({ width: 0, height: 0 });
  /** @type {Ref<string | null>} */
  const hover = useRef(null);
  const { box: tipBox, tip } = useTooltip();
  const painted = useFirstPaint("aiosched.graph", startedAt);
  const scene = { graph, bounds, onPath, chosen, dim: critical === "1" && onPath.size > 0 };
  /** @type {import("../canvas.js").Draw} */
  const draw = (on, view) => {
    size.current = view;
    position.current ??= initialPosition(graph, view);
    paintGraph(on, { ...scene, ...view, ...position.current, hover: hover.current });
    paintMap(on, view, graph, position.current);
    painted({ nodes: graph.nodes.length });
  };
  const { canvas, redraw } = useCanvas(draw, [graph, chosen, critical]);
  useKey("+ − 0", "zoom the graph, fit to view", () => {});

  const actions = actionsOf(graph, { position, size, redraw, setChosen, dagId, runId });
  useGoto(graph, position, (node) => {
    setChosen(node.id);
    actions.show(node);
    canvas.current.parentElement.focus();
  });
  useWheel(canvas, tip, actions);
  const keys = "Arrow keys follow the edges, plus and minus zoom, 0 fits to view.";
  const words = `Graph of ${dagId}: ${graph.nodes.length} nodes. ${keys}`;
  const height = `clamp(260px, ${Math.round(graph.height * 1.25 + 90)}px, max(300px, calc(100vh - 300px)))`;
  return html`
    <div>
      <div
        class="graphbox"
        style=${{ height }}
        role="application"
        tabindex="0"
        aria-label=${words}
        aria-describedby="graph-chosen"
        onKeyDown=${keyListener(graph, selected, position, actions)}
        ...${usePointer(graph, { chosen, position, hover, canvas, tip, redraw, actions })}
      >
        <canvas ref=${canvas} aria-hidden="true" />
        <${Zoom} actions=${actions} />
      </div>
      <div class="tip" ref=${tipBox} hidden aria-hidden="true" />
      <${Chosen} node=${selected} fold=${actions.fold} dagId=${dagId} runId=${runId} />
    </div>
  `;
}

/**
 * @typedef {import("./moving.js").Actions} Actions
 * @typedef {import("./scene.js").Position} Position
 * @typedef {import("./scene.js").Size} Size
 *
 * The actions; `position` and `size` are of the view, `runId` is that of the run whose states are shown.
 * @param {Api["DagGraph"]} graph
 * @param {{ position: Ref<Position>, size: Ref<Size>, redraw: () => void, setChosen: (id: string | null) => void,
 *   dagId: string, runId: string | undefined }} view
 * @returns {Actions}
 */
function actionsOf(graph, { position, size, redraw, setChosen, dagId, runId }) {
  /** @param {Position} next */
  const move = (next) => {
    position.current = next;
    redraw();
  };
  const middle = () => [size.current.width / 2, size.current.height / 2];
  /** @type {Actions} */
  const actions = {
    move,
    fold: (node) =>
      toggleFold(node.id, new Set(graph.nodes.filter((one) => one.is_folded).map((one) => one.id))),
    map(point) {
      const next = shownByMap(graph, size.current, position.current, point);
      if (next) move(next);
      return next !== null;
    },
    zoom: (factor, point = middle()) => move(zoomed(position.current, factor, point)),
    fit: () => move(fitted(graph, size.current)),
    show: (node) => move(showing(position.current, size.current, node)),
    choose(id) {
      setChosen(id);
      setQuery({ task: id });
    },
    open(node) {
      const neighbour = isNeighbour(node) && neighbourPath(node);
      if (neighbour) go(neighbour);
      else if (isNeighbour(node)) return;
      else if (node.kind === "group") actions.fold(node);
      else if (runId) go(path("dags", dagId, "runs", runId, "tasks", node.id));
    },
  };
  return actions;
}

/** @param {{ actions: Actions }} props */
const Zoom = ({ actions }) => html`
  <div class="zoom row">
    <button class="button small" aria-label="Zoom in" onClick=${() => actions.zoom(1.25)}>
      +
    </button>
    <button class="button small" aria-label="Zoom out" onClick=${() => actions.zoom(0.8)}>
      −
    </button>
    <button class="button small" onClick=${actions.fit}>
      Fit
    </button>
  </div>
`;

/**
 * Show the selected task once if the query string has `goto=1`.
 * @param {Api["DagGraph"]} graph
 * @param {Ref<Position | null>} position
 * @param {(node: Api["GraphNode"]) => void} show
 */
function useGoto(graph, position, show) {
  useEffect(() => {
    if (query.value.goto !== "1") return;
    setQuery({ goto: null });
    const found = graph.nodes.find((node) => node.id === query.value.task);
    if (found && position.current) show(found);
  });
}
