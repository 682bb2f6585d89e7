// The scene of the graph: its content, the position of the view, and hit testing.

const MARGIN = 24;
export const READABLE = 0.75; // below this scale, text has less than 9 pixels
const SMALLEST = 0.04;
const LARGEST = 2.5;

/**
 * @typedef {[left: number, top: number, right: number, bottom: number]} Bounds
 *
 * Everything that is drawn, except the position of the view.
 * @typedef {object} Scene
 * @property {Api["DagGraph"]} graph
 * @property {Bounds[]} bounds of each edge
 * @property {Set<string>} onPath ids on the critical path
 * @property {boolean} dim whether the critical path is highlighted
 * @property {string | null} chosen id of a node
 *
 * Screen pixels are graph pixels times `scale`, offset by `x` and `y`.
 * @typedef {{ scale: number, x: number, y: number }} Position
 *
 * @typedef {{ width: number, height: number }} Size
 */

/**
 * @param {Api["DagGraph"]} graph
 * @returns {Bounds[]}
 */
export const boundsOf = (graph) =>
  graph.edges.map(({ points }) => [
    Math.min(...points.map(([x]) => x)),
    Math.min(...points.map(([, y]) => y)),
    Math.max(...points.map(([x]) => x)),
    Math.max(...points.map(([, y]) => y)),
  ]);

/**
 * Whether a node is drawn as a box: a task or a folded group.
 * @param {Api["GraphNode"]} node
 */
export const isBox = (node) => node.kind !== "group" || node.is_folded;

// ---- position of the view ----

/**
 * The position that shows the whole graph.
 * @param {Size} graph
 * @param {Size} size of the canvas
 * @returns {Position}
 */
export function fitted(graph, { width, height }) {
  const wanted = Math.min(1.25, (width - 2 * MARGIN) / graph.width, (height - 2 * MARGIN) / graph.height);
  const scale = Math.max(SMALLEST, wanted);
  return { scale, x: (width - graph.width * scale) / 2, y: (height - graph.height * scale) / 2 };
}

/**
 * The initial position: the whole graph, or its left end if the whole would be too small to read.
 * @param {Api["DagGraph"]} graph
 * @param {Size} size
 * @returns {Position}
 */
export function initialPosition(graph, size) {
  const all = fitted(graph, size);
  if (all.scale >= READABLE) return all;
  const top = (size.height - graph.height * READABLE) / 2;
  return { scale: READABLE, x: MARGIN, y: Math.max(top, MARGIN) };
}

/**
 * Zoom by a factor, keeping the screen point `[x, y]` fixed.
 * @param {Position} position
 * @param {number} factor
 * @param {number[]} point
 * @returns {Position}
 */
export function zoomed({ scale, x, y }, factor, [px, py]) {
  const next = Math.max(SMALLEST, Math.min(LARGEST, scale * factor));
  return { scale: next, x: px - ((px - x) / scale) * next, y: py - ((py - y) / scale) * next };
}

/**
 * The position moved so that a node is in view; unchanged if it already is.
 * @param {Position} position
 * @param {Size} size
 * @param {Api["GraphNode"]} node
 * @returns {Position}
 */
export function showing(position, { width, height }, node) {
  const { scale, x, y } = position;
  const left = node.x * scale + x;
  const top = node.y * scale + y;
  const right = left + node.width * scale;
  const bottom = top + node.height * scale;
  if (left >= 10 && top >= 10 && right <= width - 10 && bottom <= height - 10) return position;
  const next = Math.max(scale, 0.5);
  return {
    scale: next,
    x: width / 2 - (node.x + node.width / 2) * next,
    y: height / 2 - (node.y + node.height / 2) * next,
  };
}

// ---- hit testing and neighbours ----

/**
 * The node at a screen point; for an open group, only its header counts.
 * @param {Api["GraphNode"][]} nodes
 * @param {Position} position
 * @param {number[]} point
 */
export function nodeAt(nodes, { scale, x, y }, [px, py]) {
  const [gx, gy] = [(px - x) / scale, (py - y) / scale];
  /** @param {Api["GraphNode"]} node */
  const hit = (node) => {
    const height = node.kind === "group" && !node.is_folded ? 26 : node.height;
    return gx >= node.x && gx <= node.x + node.width && gy >= node.y && gy <= node.y + height;
  };
  return nodes.findLast(hit) ?? null; // inner nodes come after their groups in the list
}

/**
 * The node an arrow key leads to: along the edges for left and right, otherwise the nearest one above or below.
 * @param {Api["DagGraph"]} graph
 * @param {Api["GraphNode"] | undefined} from
 * @param {string} key
 */
export function neighbour(graph, from, key) {
  if (!from) return graph.nodes.find(isBox);
  if (key === "ArrowLeft" || key === "ArrowRight") return alongEdges(graph, from, key === "ArrowLeft");
  /** @param {Api["GraphNode"]} node */
  const overlaps = (node) => node.x < from.x + from.width && node.x + node.width > from.x;
  /** @param {Api["GraphNode"]} node */
  const beyond = (node) => (key === "ArrowUp" ? node.y < from.y : node.y > from.y);
  const same = graph.nodes.filter(
    (node) => node.id !== from.id && isBox(node) && overlaps(node) && beyond(node),
  );
  return same.sort((a, b) => Math.abs(a.y - from.y) - Math.abs(b.y - from.y))[0];
}

/**
 * The nearest predecessor or successor of a node.
 * @param {Api["DagGraph"]} graph
 * @param {Api["GraphNode"]} from
 * @param {boolean} before
 */
function alongEdges({ nodes, edges }, from, before) {
  const middle = from.y + from.height / 2;
  const ids = edges
    .filter((edge) => (before ? edge.target : edge.source) === from.id)
    .map((edge) => (before ? edge.source : edge.target));
  const near = ids.flatMap((id) => nodes.find((node) => node.id === id) ?? []);
  return near.sort((a, b) => Math.abs(a.y - middle) - Math.abs(b.y - middle))[0];
}
