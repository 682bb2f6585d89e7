// A small map of a graph that is larger than the view: all boxes, and what of them is in view.
import { isBox } from "./scene.js";

const WIDTH = 150;
const HEIGHT = 84;
const EDGE = 10;

/**
 * @typedef {import("./scene.js").Position} Position
 * @typedef {import("./scene.js").Size} Size
 *
 * Where the map is on the canvas, and its scale; null if the whole graph is in view.
 * @param {Api["DagGraph"]} graph
 * @param {Size} size
 * @param {Position} position
 */
export function mapOf(graph, { width, height }, { scale, x, y }) {
  const whole =
    x >= -1 && y >= -1 && x + graph.width * scale <= width + 1 && y + graph.height * scale <= height + 1;
  if (whole || width < 3 * WIDTH) return null;
  const small = Math.min(WIDTH / graph.width, HEIGHT / graph.height);
  return { left: EDGE, top: height - EDGE - graph.height * small, scale: small };
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {import("../canvas.js").View} view
 * @param {Api["DagGraph"]} graph
 * @param {Position} position
 */
export function paintMap(on, view, graph, position) {
  const map = mapOf(graph, view, position);
  if (!map) return;
  const { left, top, scale } = map;
  const { colours, width, height } = view;
  on.save();
  on.fillStyle = colours.raised;
  on.strokeStyle = colours.strong;
  on.lineWidth = 1;
  on.beginPath();
  on.rect(left - 4, top - 4, graph.width * scale + 8, graph.height * scale + 8);
  on.fill();
  on.stroke();
  on.clip();
  for (const node of graph.nodes) {
    if (!isBox(node)) continue;
    const states = Object.keys(node.counts ?? {});
    on.fillStyle =
      states.length === 1 ? colours.state[states[0]] : states.length ? colours.state.mixed : colours.soft;
    const [w, h] = [Math.max(node.width * scale, 1.5), Math.max(node.height * scale, 1.5)];
    on.fillRect(left + node.x * scale, top + node.y * scale, w, h);
  }
  on.strokeStyle = colours.accent;
  on.lineWidth = 1.5;
  const ratio = scale / position.scale;
  on.strokeRect(left - position.x * ratio, top - position.y * ratio, width * ratio, height * ratio);
  on.restore();
}

/**
 * The position that shows the point of the map under a point of the canvas; null if that is not in the map.
 * @param {Api["DagGraph"]} graph
 * @param {Size} size
 * @param {Position} position
 * @param {number[]} point
 * @returns {Position | null}
 */
export function shownByMap(graph, size, position, [px, py]) {
  const map = mapOf(graph, size, position);
  if (!map) return null;
  const [gx, gy] = [(px - map.left) / map.scale, (py - map.top) / map.scale];
  if (gx < 0 || gy < 0 || gx > graph.width || gy > graph.height) return null;
  const { scale } = position;
  return { scale, x: size.width / 2 - gx * scale, y: size.height / 2 - gy * scale };
}
