// Details of the selected node, shown below the graph.
import { html } from "../../lib/html.js";
import { labelAndId, operatorWords } from "../../lib/names.js";
import { path } from "../../lib/router.js";
import { byState, stateOf } from "../../lib/states.js";
import { Link, State } from "../basics.js";

/** @param {Api["GraphNode"]} node */
const isMany = (node) => node.kind === "group" || node.is_mapped;

/**
 * Whether a node is an asset or another DAG.
 * @param {Api["GraphNode"]} node
 */
export const isNeighbour = ({ kind }) => kind === "asset" || kind === "dag";

/**
 * The page of an asset or another DAG; null if it is not known.
 * @param {Api["GraphNode"]} node
 */
export const neighbourPath = ({ kind, refers_to: name }) =>
  name && path(kind === "asset" ? "assets" : "dags", name);

/**
 * A node as lines of text.
 * @param {Api["GraphNode"]} node
 */
export const nodeWords = (node) => [...shapeWords(node), node.counts && countWords(node)].filter(Boolean);

/** @param {Api["GraphNode"]} node */
const shapeWords = (node) =>
  [
    ...(isNeighbour(node) ? [node.label] : labelAndId(node)),
    node.kind === "asset" && "asset",
    node.kind === "dag" && (node.refers_to ? "DAG" : "set at run time"),
    node.kind === "group" ? "group" : node.operator && operatorWords(node.operator),
    node.is_mapped && "mapped",
    node.trigger_rule && node.trigger_rule !== "all_success" && `trigger rule ${node.trigger_rule}`,
  ].filter(Boolean);

/** @param {Api["GraphNode"]} node */
const countWords = (node) =>
  Object.entries(node.counts ?? {})
    .map(([name, n]) => (isMany(node) ? `${n} ` : "") + stateOf(name).label)
    .join(", ");

/**
 * @typedef {(node: Api["GraphNode"]) => void} Fold
 * @param {{ node: Api["GraphNode"] | undefined, fold: Fold, dagId: string, runId: string | undefined }} props
 */
export function Chosen({ node, fold, dagId, runId }) {
  return html`
    <section class="selected card" aria-label="Selected" aria-live="polite" id="graph-chosen">
      ${node ? html`
        <div class="row apart">
          <div class="row">
            <b>${shapeWords(node)[0]}</b>
            ${shapeWords(node)
              .slice(1)
              .map((words) => html`
                <span class="soft">${words}</span>
              `)}
            ${node.counts &&
              byState(node.counts).map(([name, n]) => html`
                <${State} name=${name} count=${isMany(node) ? n : undefined} />
              `)}
          </div>
          <${Action} node=${node} fold=${fold} dagId=${dagId} runId=${runId} />
        </div>
      ` : html`
        <span class="faint">
          Click a node, or use the arrow keys in the graph. Click a group twice to fold it.
        </span>
      `}
    </section>
  `;
}

/** @param {{ node: Api["GraphNode"], fold: Fold, dagId: string, runId: string | undefined }} props */
function Action({ node, fold, dagId, runId }) {
  if (node.kind === "group")
    return html`
      <button class="button small" onClick=${() => fold(node)}>
        ${node.is_folded ? "Unfold" : "Fold"}
      </button>
    `;
  const to = isNeighbour(node)
    ? neighbourPath(node)
    : runId && path("dags", dagId, "runs", runId, "tasks", node.id);
  return to ? html`
    <${Link} class="button small" to=${to}>
      Open
    <//>
  ` : null;
}
