// Draws the graph: groups, edges and nodes, only the visible ones.
import { worst } from "../../lib/states.js";
import { clip, sprite } from "../canvas.js";
import { isBox } from "./scene.js";

/**
 * What is drawn and where; `hover` is the id of the node under the pointer.
 * @typedef {import("./scene.js").Scene & import("../canvas.js").View & import("./scene.js").Position & {
 *   hover: string | null,
 * }} Picture
 */

/**
 * @param {CanvasRenderingContext2D} on
 * @param {Picture} picture
 */
export function paintGraph(on, picture) {
  const { graph, bounds, scale, x, y, width, height } = picture;
  const seen = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  const visible = (a, b, c, d) => c >= seen.left && a <= seen.right && d >= seen.top && b <= seen.bottom;
  const nodes = graph.nodes.filter((node) =>
    visible(node.x, node.y, node.x + node.width, node.y + node.height),
  );
  on.save();
  on.translate(x, y);
  on.scale(scale, scale);
  for (const node of nodes) if (!isBox(node)) paintGroup(on, node, picture);
  paintEdges(
    on,
    graph.edges.filter((_, i) => visible(...bounds[i])),
    picture,
  );
  for (const node of nodes) if (isBox(node)) paintBox(on, node, picture);
  on.restore();
}

/** An open group, drawn behind its nodes. */
function paintGroup(on, node, { colours, scale, chosen }) {
  on.fillStyle = colours.sunken;
  on.globalAlpha = 0.7;
  on.beginPath();
  on.roundRect(node.x, node.y, node.width, node.height, 8);
  on.fill();
  on.globalAlpha = 1;
  on.strokeStyle = node.id === chosen ? colours.accent : colours.line;
  on.lineWidth = (node.id === chosen ? 2 : 1) / Math.min(scale, 1);
  on.stroke();
  if (scale <= 0.3) return;
  on.fillStyle = colours.soft;
  on.font = `600 12px ${colours.sans}`;
  on.textBaseline = "middle";
  on.textAlign = "left";
  on.fillText(`▾ ${clip(on, node.label, node.width - 30)}`, node.x + 8, node.y + 14);
}

// ---- edges ----

function styleOf({ source, target }, { dim, onPath, chosen }) {
  if (dim && onPath.has(source) && onPath.has(target)) return "critical";
  return source === chosen || target === chosen ? "near" : "plain";
}

/** Draw all edges of one style as one path, because strokes are expensive. */
function paintEdges(on, edges, picture) {
  const { colours, scale, dim } = picture;
  const colour = { plain: colours.strong, near: colours.accent, critical: colours.text };
  for (const style of ["plain", "near", "critical"]) {
    const alike = edges.filter((edge) => styleOf(edge, picture) === style);
    if (!alike.length) continue;
    on.globalAlpha = dim && style === "plain" ? 0.25 : 1;
    on.strokeStyle = on.fillStyle = colour[style];
    on.lineWidth = (style === "plain" ? 1.2 : 2) / Math.max(Math.min(scale, 1), 0.3);
    on.beginPath();
    for (const { points } of alike) traceEdge(on, points);
    on.stroke();
    if (scale <= 0.35) continue;
    on.beginPath();
    for (const { points } of alike) traceHead(on, points.at(-1));
    on.fill();
  }
  on.globalAlpha = 1;
  if (scale > 0.35) for (const { label, points } of edges) if (label) paintLabel(on, label, points, colours);
}

function traceEdge(on, points) {
  on.moveTo(...points[0]);
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1];
    const [bx, by] = points[i];
    const middle = (ax + bx) / 2;
    on.bezierCurveTo(middle, ay, middle, by, bx, by);
  }
}

function traceHead(on, [x, y]) {
  on.moveTo(x, y);
  on.lineTo(x - 7, y - 3.5);
  on.lineTo(x - 7, y + 3.5);
  on.closePath();
}

/** The label of an edge, at its middle. */
function paintLabel(on, label, points, colours) {
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
}

// ---- nodes ----

function paintBox(on, node, picture) {
  const { colours, scale, dim, onPath } = picture;
  const state = node.counts ? worst(node.counts) : null;
  const lit = !dim || onPath.has(node.id);
  on.globalAlpha = lit ? 1 : 0.4;
  paintFrame(on, node, state, lit, picture);
  if (scale < 0.3) {
    if (state) paintStripe(on, node, colours.state[state]);
  } else {
    paintName(on, node, state, picture);
    if (node.is_folded || node.is_mapped) paintBadge(on, node, badgeOf(node), colours);
  }
  on.globalAlpha = 1;
}

/** The outline, with a second line below for nodes with several instances. */
function paintFrame(on, node, state, lit, { colours, scale, chosen, dim, hover }) {
  on.fillStyle = colours.raised;
  on.beginPath();
  on.roundRect(node.x, node.y, node.width, node.height, 6);
  on.fill();
  on.strokeStyle = node.id === chosen ? colours.accent : state ? colours.state[state] : colours.strong;
  const wide = node.id === chosen || (dim && lit) ? 2.5 : hover === node.id ? 2 : 1.4;
  on.lineWidth = wide / Math.max(Math.min(scale, 1), 0.35);
  on.stroke();
  if (!node.is_folded && !node.is_mapped) return;
  on.beginPath();
  on.moveTo(node.x + 6, node.y + node.height + 3);
  on.lineTo(node.x + node.width - 6, node.y + node.height + 3);
  on.stroke();
}

/** The state, if there is no room for text. */
function paintStripe(on, node, colour) {
  on.fillStyle = colour;
  on.fillRect(node.x, node.y, 12, node.height);
}

function paintName(on, node, state, { colours, density }) {
  const middle = node.y + node.height / 2;
  if (state) on.drawImage(sprite(colours, state, 16, density * 2), node.x + 7, middle - 8, 16, 16);
  const from = node.x + (state ? 28 : 9);
  on.fillStyle = colours.text;
  on.font = `${node.is_folded ? "600 " : ""}12px ${colours.sans}`;
  on.textAlign = "left";
  on.textBaseline = "middle";
  const label = (node.is_folded ? "▸ " : "") + node.label;
  on.fillText(clip(on, label, node.x + node.width - from - 3), from, middle + 0.5);
}

function badgeOf(node) {
  const total = Object.values(node.counts ?? {}).reduce((sum, n) => sum + n, 0);
  if (total) return `× ${total}`;
  return node.is_folded ? "group" : "mapped";
}

/** A badge on the upper edge, where it takes no room from the name. */
function paintBadge(on, node, words, colours) {
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
}
