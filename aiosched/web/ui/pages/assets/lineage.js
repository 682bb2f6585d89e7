// The lineage of assets: the part of the dependencies that has to do with assets, or with one of them.
import { html } from "../../lib/html.js";
import { useResource } from "../../lib/resources.js";
import { Card, Empty, Shown } from "../../parts/basics.js";
import { DependencyDrawing } from "../../parts/dependencies/drawing.js";

/** @param {{ around?: string }} props */
export function LineageCard({ around }) {
  const marked = around && `asset:${around}`;
  /** @type {Resource<Api["DependencyGraph"]>} */
  const found = useResource("dependencies", { around: marked }, { kinds: ["asset", "dag", "run"] });
  return html`
    <${Card} title="Lineage">
      <${Shown} of=${found}>
        ${(/** @type {Api["DependencyGraph"]} */ whole) => {
          const graph = around ? whole : ofAssets(whole);
          return graph.edges.length ? html`
            <${DependencyDrawing} graph=${graph} marked=${marked} label="Asset lineage" />
          ` : html`
            <${Empty} title="No DAG produces or consumes an asset" />
          `;
        }}
      <//>
    <//>
  `;
}

/**
 * @param {Api["DependencyGraph"]} graph
 * @returns {Api["DependencyGraph"]}
 */
function ofAssets({ nodes, edges, is_complete }) {
  const kept = edges.filter((e) => [e.source, e.target].some((id) => id.startsWith("asset:")));
  const ids = new Set(kept.flatMap((e) => [e.source, e.target]));
  return { nodes: nodes.filter((n) => ids.has(n.id)), edges: kept, is_complete };
}
