// Draws the edges of the graph: curves with arrow heads, and labels at their middles.

/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {import("./painting.js").Picture} Picture */
/** @typedef {[x: number, y: number]} Point */

/**
 * @param {Api["GraphEdge"]} edge
 * @param {Picture} picture
 */
function styleOf({ source, target }, { dim, onPath, chosen }) {
  if (dim && onPath.has(source) && onPath.has(target)) return "critical";
  return source === chosen || target === chosen ? "near" : "plain";
}

/**
 * Draw all edges of one style as one path, because strokes are expensive.
 * @param {Context} on
 * @param {Api["GraphEdge"][]} edges
 * @param {Picture} picture
 */
export function paintEdges(on, edges, picture) {
  const { colours, scale, dim } = picture;
  /** @type {Record<string, string>} */
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
    for (const { points } of alike) traceHead(on, points[points.length - 1]);
    on.fill();
  }
  on.globalAlpha = 1;
  if (scale > 0.35) for (const { label, points } of edges) if (label) paintLabel(on, label, points, colours);
}

/**
 * @param {Context} on
 * @param {Point[]} points
 */
function traceEdge(on, points) {
  on.moveTo(...points[0]);
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1];
    const [bx, by] = points[i];
    const middle = (ax + bx) / 2;
    on.bezierCurveTo(middle, ay, middle, by, bx, by);
  }
}

/**
 * @param {Context} on
 * @param {Point} point
 */
function traceHead(on, [x, y]) {
  on.moveTo(x, y);
  on.lineTo(x - 7, y - 3.5);
  on.lineTo(x - 7, y + 3.5);
  on.closePath();
}

/**
 * The label of an edge, at its middle.
 * @param {Context} on
 * @param {string} label
 * @param {Point[]} points
 * @param {import("../canvas.js").Palette} colours
 */
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
