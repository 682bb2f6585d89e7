// Folds groups of a graph, the innermost first, until its text can be read as it opens.
import { useEffect, useRef, useState } from "../../lib/html.js";
import { query } from "../../lib/router.js";
import { foldedGroups } from "../grid/folding.js";
import { READABLE, fitted } from "./scene.js";

/**
 * @typedef {{ box: Ref<HTMLElement>, folded: string[], settled: boolean, automatic: number, unfold: () => void,
 *   useCheck: (graph: Api["DagGraph"] | null) => void }} Readable
 *
 * The ids of the folded groups: those in the query string, or those that had to be folded. `settled`: they stay so;
 * `automatic` is how many had to be folded, `unfold` unfolds them; `box` is where the graph will be.
 * @returns {Readable}
 */
export function useReadable() {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  const asked = useRef(false); // somebody has folded or unfolded a group
  asked.current ||= query.value.fold !== undefined;
  const [folds, setFolds] = useState(/** @type {string[]} */ ([]));
  const [settled, setSettled] = useState(false);
  /** @param {Api["DagGraph"] | null} graph */
  const useCheck = (graph) =>
    useEffect(() => {
      if (!graph || settled) return;
      const groups = asked.current ? [] : innermost(graph.nodes);
      const size = { width: box.current?.clientWidth || innerWidth, height: Math.max(300, innerHeight - 300) };
      if (groups.length && fitted(graph, size).scale < READABLE) setFolds([...folds, ...groups]);
      else setSettled(true);
    }, [graph]);
  return {
    box,
    folded: asked.current ? [...foldedGroups()] : folds,
    settled,
    automatic: asked.current ? 0 : folds.length,
    unfold() {
      asked.current = true;
      setFolds([]);
    },
    useCheck,
  };
}

/**
 * The open groups that are inside most others.
 * @param {Api["GraphNode"][]} nodes
 */
function innermost(nodes) {
  const parents = new Map(nodes.map((node) => [node.id, node.parent]));
  /** @param {string | null | undefined} id */
  const depth = (id) => {
    let n = 0;
    for (let each = id; each; each = parents.get(each)) n++;
    return n;
  };
  const open = nodes.filter((node) => node.kind === "group" && !node.is_folded);
  const deepest = Math.max(...open.map((node) => depth(node.id)));
  return open.filter((node) => depth(node.id) === deepest).map((node) => node.id);
}
