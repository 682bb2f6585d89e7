// The drawing of what depends on what: DAGs and assets with their states, from left to right, with zoom.
import { html, useState } from "../../lib/html.js";
import { layered } from "../../lib/layered.js";
import { href } from "../../lib/router.js";
import { kindWords, nodePath, statusOf } from "./words.js";

const WIDE = 190;
const HIGH = 48;

/** @typedef {{ x: number, y: number }} Place */

/**
 * The SVG path of an edge; an edge that leads backwards loops below the nodes.
 * @param {Place} from
 * @param {Place} to
 */
function lineOf(from, to) {
  const [x1, y1] = [from.x + WIDE, from.y + HIGH / 2];
  const [x2, y2] = [to.x, to.y + HIGH / 2];
  if (x2 <= x1) {
    const [a, b] = [x1 - WIDE / 2, x2 + WIDE / 2];
    return `M${a},${from.y + HIGH} C${a},${y1 + 60} ${b},${y2 + 60} ${b},${to.y + HIGH}`;
  }
  const middle = Math.max((x2 - x1) / 2, 20);
  return `M${x1},${y1} C${x1 + middle},${y1} ${x2 - middle},${y2} ${x2},${y2}`;
}

/** @param {{ scale: number | null, setScale: (scale: number | null) => void }} props */
const Zoom = ({ scale, setScale }) => html`
  <div class="row">
    <button
      class="button small"
      aria-label="Zoom in"
      onClick=${() => setScale(Math.min((scale ?? 1) * 1.25, 3))}
    >
      +
    </button>
    <button
      class="button small"
      aria-label="Zoom out"
      onClick=${() => setScale(Math.max((scale ?? 1) * 0.8, 0.2))}
    >
      −
    </button>
    <button class="button small" aria-pressed=${scale === null} onClick=${() => setScale(null)}>
      Fit
    </button>
    <button class="button small" onClick=${() => setScale(1)}>
      100 %
    </button>
  </div>
`;

/**
 * `marked` is the id of the node that the graph is about.
 * @param {{ graph: Api["DependencyGraph"], marked?: string, label: string }} props
 */
export function DependencyDrawing({ graph, marked, label }) {
  const { places, width, height } = layered(
    graph.nodes.map((n) => n.id),
    graph.edges.map((e) => [e.source, e.target]),
    { wide: WIDE, high: HIGH, across: 70, down: 14 },
  );
  const [scale, setScale] = useState(/** @type {number | null} */ (null)); // null: as large as fits
  const natural = width + 4;
  const size = scale === null ? { maxWidth: `${natural}px`, width: "100%" } : { width: `${natural * scale}px` };
  return html`
    <${Zoom} scale=${scale} setScale=${setScale} />
    <div class="scroll lineage" tabindex="0" role="region" aria-label=${label}>
      <svg
        style=${{ ...size, height: "auto" }}
        viewBox=${`-2 -2 ${width + 4} ${height + 4}`}
        role="group"
        aria-label=${`${graph.nodes.length} DAGs and assets`}
      >
        ${graph.edges.map((e) => html`
          <path
            class=${`edge ${e.kind} ${[e.source, e.target].includes(marked ?? "") ? "near" : ""}`}
            d=${lineOf(places.get(e.source), places.get(e.target))}
          >
            <title>${kindWords(e)}</title>
          </path>
        `)}
        ${graph.nodes.map((n) => html`
          <${Node} key=${n.id} node=${n} place=${places.get(n.id)} marked=${n.id === marked} />
        `)}
      </svg>
      <p class="row wide faint">
        <span>▤ a DAG</span>
        <span>◆ an asset</span>
        <span>? a DAG that is known only when the task runs</span>
        <span>- - - triggered or waited for</span>
      </p>
    </div>
  `;
}

/** @param {string} text */
const short = (text) => (text.length > 22 ? text.slice(0, 21) + "…" : text);

/** @param {{ node: Api["DependencyItem"], place: Place, marked: boolean }} props */
function Node({ node, place, marked }) {
  const { name, icon, glyph, words, detail, colour } = statusOf(node);
  const shape = html`
    <g class=${`node ${node.kind} ${marked ? "marked" : ""}`} transform=${`translate(${place.x},${place.y})`}>
      <title>
        ${name}: ${detail ?? words}
      </title>
      <rect width=${WIDE} height=${HIGH} rx=${node.kind === "asset" ? HIGH / 2 : 6} />
      <text x="16" y="20" aria-hidden="true">
        ${icon} ${short(node.name || "unknown DAG")}
      </text>
      <text class="status" x="16" y="37" aria-hidden="true">
        <tspan style=${{ fill: colour }}>${glyph}</tspan> ${words}
      </text>
    </g>
  `;
  const to = nodePath(node);
  return to ? html`
    <a href=${href(to)} aria-label=${`${name} ${words}`}>
      ${shape}
    </a>
  ` : (
    shape
  );
}
