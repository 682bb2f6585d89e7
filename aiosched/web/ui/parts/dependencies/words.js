// Words for the nodes and edges of dependencies, and for the freshness of assets.
import { html } from "../../lib/html.js";
import { path } from "../../lib/router.js";
import { stateOf } from "../../lib/states.js";
import { instant } from "../../lib/time.js";
import { When } from "../basics.js";

/** @typedef {Api["DependencyItem"]} Item */

/** How each freshness is shown. @type {Record<string, { glyph: string, state: string }>} */
const FRESHNESS = {
  fresh: { glyph: "✓", state: "success" },
  late: { glyph: "!", state: "failed" },
  unknown: { glyph: "?", state: "none" },
};
export const FRESHNESS_CHOICES = /** @type {Choice[]} */ (Object.keys(FRESHNESS).map((one) => [one, one]));

/** @param {string} state */
const colourOf = (state) => `var(--state-${state}, var(--state-none))`;

/**
 * Whether an asset is fresh, and when its next event is expected.
 * @param {{ asset: { freshness: string, expected_by: string | null } }} props
 */
export function Freshness({ asset }) {
  const { glyph, state } = FRESHNESS[asset.freshness];
  return html`
    <span class="state" style=${{ "--c": colourOf(state) }}>
      <i aria-hidden="true">${glyph}</i>
      <span>${asset.freshness}</span>
    </span>
    ${asset.expected_by && html`
      <span class="faint">
        ${" "}
        expected <${When} at=${asset.expected_by} ago />
      </span>
    `}
  `;
}

/**
 * The name of a node with its kind, its icon, and its state.
 * @param {Item} node
 */
export function statusOf(node) {
  if (node.kind === "asset") {
    const { glyph, state } = FRESHNESS[node.freshness ?? "unknown"];
    const words = node.freshness ?? "unknown";
    const detail = node.expected_by ? `${words}, next event expected by ${instant(node.expected_by)}` : words;
    return { name: `asset ${node.name}`, icon: "◆", glyph, words, detail, colour: colourOf(state) };
  }
  if (node.kind === "unknown")
    return { name: "unknown DAG", icon: "?", glyph: "", words: "set at run time", colour: colourOf("none") };
  const state = node.state ?? "none";
  const run = node.state ? stateOf(state).label : "no runs";
  const words = !node.exists ? "does not exist" : node.is_paused ? `${run}, paused` : run;
  return { name: `DAG ${node.name}`, icon: "▤", glyph: stateOf(state).glyph, words, colour: colourOf(state) };
}

/**
 * The page of a node; null if there is none.
 * @param {Item} node
 */
export function nodePath(node) {
  if (node.kind === "asset") return path("assets", node.name);
  return node.kind === "dag" && node.exists ? path("dags", node.name) : null;
}

/** @type {Record<string, string>} */
const KINDS = {
  produces: "is produced by",
  scheduled_on: "is scheduled on",
  reads: "reads",
  triggers: "is triggered by",
  waits_for: "waits for",
};

/**
 * What the target of an edge does with its source, as in "report waits for load".
 * @param {{ kind: string, task_ids: string[] }} edge
 */
export const kindWords = ({ kind, task_ids }) =>
  KINDS[kind] + (task_ids.length ? ` (task ${task_ids.join(", ")})` : "");
/** @param {string} kind */
export const verbOf = (kind) => KINDS[kind];
