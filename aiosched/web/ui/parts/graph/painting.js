// Draws the graph: groups, edges and nodes, only the visible ones.
import { worst } from "../../lib/states.js";
import { clip, sprite } from "../canvas.js";
import { paintEdges } from "./edges.js";
import { isBox } from "./scene.js";

/**
 * What is drawn and where; `hover` is the id of the node under the pointer.
 * @typedef {import("./scene.js").Scene & import("../canvas.js").View & import("./scene.js").Position & {
 *   hover: string | null,
 * }} Picture
 *
 * @typedef {CanvasRenderingContext2D} Context
 * @typedef {import("../canvas.js").Palette} Palette
 * @typedef {Api["GraphNode"]} Node
 */

/** @type {Record<string, string>} */
const ICONS = { task: "", group: "", asset: "◆ ", dag: "▤ " };

/**
 * @param {Context} on
 * @param {Picture} picture
 */
export function paintGraph(on, picture) {
  const { graph, bounds, scale, x, y, width, height } = picture;
  const seen = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  /** @type {(...bounds: import("./scene.js").Bounds) => boolean} */
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

/**
 * An open group, drawn behind its nodes.
 * @param {Context} on
 * @param {Node} node
 * @param {Picture} picture
 */
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

// ---- nodes ----

/**
 * @param {Context} on
 * @param {Node} node
 * @param {Picture} picture
 */
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

/**
 * The outline, with a second line below for nodes with several instances.
 * @param {Context} on
 * @param {Node} node
 * @param {string | null} state
 * @param {boolean} lit
 * @param {Picture} picture
 */
function paintFrame(on, node, state, lit, { colours, scale, chosen, dim, hover }) {
  on.fillStyle = colours.raised;
  on.beginPath();
  on.roundRect(node.x, node.y, node.width, node.height, node.kind === "asset" ? node.height / 2 : 6);
  if (node.kind === "dag" || node.kind === "asset") on.fillStyle = colours.accentSoft;
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

/**
 * The state, if there is no room for text.
 * @param {Context} on
 * @param {Node} node
 * @param {string} colour
 */
function paintStripe(on, node, colour) {
  on.fillStyle = colour;
  on.fillRect(node.x, node.y, 12, node.height);
}

/**
 * @param {Context} on
 * @param {Node} node
 * @param {string | null} state
 * @param {Picture} picture
 */
function paintName(on, node, state, { colours, density }) {
  const middle = node.y + node.height / 2;
  if (state) on.drawImage(sprite(colours, state, 16, density * 2), node.x + 7, middle - 8, 16, 16);
  const from = node.x + (state ? 28 : 9);
  on.fillStyle = colours.text;
  on.font = `${node.is_folded ? "600 " : ""}12px ${colours.sans}`;
  on.textAlign = "left";
  on.textBaseline = "middle";
  const label = ICONS[node.kind] + (node.is_folded ? "▸ " : "") + node.label;
  on.fillText(clip(on, label, node.x + node.width - from - 3), from, middle + 0.5);
}

/** @param {Node} node */
function badgeOf(node) {
  const total = Object.values(node.counts ?? {}).reduce((sum, n) => sum + n, 0);
  if (total) return `× ${total}`;
  return node.is_folded ? "group" : "mapped";
}

/**
 * A badge on the upper edge, where it takes no room from the name.
 * @param {Context} on
 * @param {Node} node
 * @param {string} words
 * @param {Palette} colours
 */
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
