// The list form of what depends on what, for phones and screen readers.
import { html } from "../../lib/html.js";
import { Card, Link, State, Tag } from "../basics.js";
import { Table } from "../table.js";
import { Freshness, nodePath, verbOf } from "./words.js";

/** @param {{ node: Api["DependencyItem"] }} props */
function Item({ node }) {
  const to = nodePath(node);
  if (node.kind === "unknown") return html`<span class="soft">unknown DAG (set at run time)</span>`;
  return html`
    <span class="row">
      <${Tag}>${node.kind === "dag" ? "DAG" : "asset"}<//>
      ${to ? html`<${Link} to=${to}>${node.name}<//>` : html`<span>${node.name}</span>`}
      ${node.kind === "asset" ? html`
        <${Freshness} asset=${node} />
      ` : node.exists ? html`
        <${State} name=${node.state} />
      ` : html`
        <span class="soft">does not exist</span>
      `}
    </span>
  `;
}

/** @param {{ graph: Api["DependencyGraph"] }} props */
export function DependencyList({ graph }) {
  const nodes = /** @type {FullMap<string, Api["DependencyItem"]>} */ (
    new Map(graph.nodes.map((n) => [n.id, n]))
  );
  /** @type {Column<Api["DependencyLink"]>[]} */
  const columns = [
    { head: "What", cell: (e) => html`<${Item} node=${nodes.get(e.target)} />` },
    { head: "Depends", cell: (e) => verbOf(e.kind) },
    { head: "On", cell: (e) => html`<${Item} node=${nodes.get(e.source)} />` },
    { head: "Tasks", cell: (e) => html`<span class="mono">${e.task_ids.join(", ") || "–"}</span>` },
  ];
  return html`
    <${Card} plain>
      <${Table}
        columns=${columns}
        items=${graph.edges}
        keyOf=${(/** @type {Api["DependencyLink"]} */ e) => `${e.source} ${e.target} ${e.kind}`}
        caption="Dependencies"
      />
    <//>
  `;
}
