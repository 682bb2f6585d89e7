// The lineage graph: which DAGs produce and consume which assets.
import { html, useState } from "../../lib/html.js";
import { layered } from "../../lib/layered.js";
import { useResource } from "../../lib/resources.js";
import { href, path } from "../../lib/router.js";
import { Card, Empty, Shown } from "../../parts/basics.js";

const WIDE = 190;

const HIGH = 36;

/** @typedef {{ x: number, y: number }} Place */

/** @param {{ around?: string }} props */
export function LineageCard({ around }) {
  /** @type {Resource<Api["Lineage"]>} */
  const found = useResource("asset-lineage", {}, { kinds: ["asset", "dag"] });
  return html`
    <${Card} title="Lineage">
      <${Shown} of=${found}>
        ${(graph) => {
          const part = around ? near(graph, `asset:${around}`) : graph;
          return part.nodes.length ? html`
            <${Lineage} graph=${part} marked=${around && `asset:${around}`} />
          ` : html`
            <${Empty} title="No DAG produces or consumes an asset" />
          `;
        }}
      <//>
    <//>
  `;
}

/**
 * The part of a graph upstream and downstream of a node.
 * @param {Api["Lineage"]} graph
 * @param {string} start
 */
function near({ nodes, edges }, start) {
  const found = new Set([start]);
  for (const [from, to] of [
    [0, 1],
    [1, 0],
  ]) {
    const pending = [start];
    for (let now = pending.pop(); now !== undefined; now = pending.pop()) {
      for (const edge of edges)
        if (edge[from] === now && !found.has(edge[to])) {
          found.add(edge[to]);
          pending.push(edge[to]);
        }
    }
  }
  return {
    nodes: nodes.filter((n) => found.has(n.id)),
    edges: edges.filter(([a, b]) => found.has(a) && found.has(b)),
  };
}

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

/** @param {{ graph: Api["Lineage"], marked: string | undefined }} props */
function Lineage({ graph, marked }) {
  const { places, width, height } = layered(
    graph.nodes.map((n) => n.id),
    graph.edges,
    { wide: WIDE, high: HIGH, across: 70, down: 14 },
  );
  const [scale, setScale] = useState(/** @type {number | null} */ (null)); // null: as large as fits
  const natural = width + 4;
  const size = scale === null ? { maxWidth: `${natural}px`, width: "100%" } : { width: `${natural * scale}px` };
  /** @param {[string, string]} edge */
  const line = ([a, b]) => lineOf(places.get(a), places.get(b));
  return html`
    <${Zoom} scale=${scale} setScale=${setScale} />
    <div class="scroll lineage" tabindex="0" role="region" aria-label="Asset lineage">
      <svg
        style=${{ ...size, height: "auto" }}
        viewBox=${`-2 -2 ${width + 4} ${height + 4}`}
        role="group"
        aria-label=${`${graph.nodes.length} DAGs and assets`}
      >
        ${graph.edges.map((edge) => html`
          <path class=${marked && edge.includes(marked) ? "edge near" : "edge"} d=${line(edge)} />
        `)}
        ${graph.nodes.map((n) => {
          const p = places.get(n.id);
          return html`
            <a
              href=${href(n.kind === "dag" ? path("dags", n.label) : path("assets", n.label))}
              aria-label=${`${n.kind === "dag" ? "DAG" : "asset"} ${n.label}`}
            >
              <g
                class=${`node ${n.kind} ${n.id === marked ? "marked" : ""}`}
                transform=${`translate(${p.x},${p.y})`}
              >
                <title>
                  ${n.kind === "dag" ? "DAG" : "asset"} ${n.label}
                </title>
                <rect width=${WIDE} height=${HIGH} rx=${n.kind === "dag" ? 6 : HIGH / 2} />
                <text x="14" y=${HIGH / 2 + 4} aria-hidden="true">
                  ${n.kind === "dag" ? "▤" : "◆"} ${n.label.length > 22 ? n.label.slice(0, 21) + "…" : n.label}
                </text>
              </g>
            </a>
          `;
        })}
      </svg>
      <p class="row wide faint">
        <span>▤ a DAG</span>
        <span>◆ an asset</span>
      </p>
    </div>
  `;
}
