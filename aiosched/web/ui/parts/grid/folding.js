// The folded task groups, stored in the query string and shared by the grid and the graph.
import { query, setQuery } from "../../lib/router.js";

/** The ids of the folded groups. */
export const foldedGroups = () => new Set((query.value.fold ?? "").split(",").filter(Boolean));

/**
 * @param {string} id of the group to fold or unfold
 * @param {Set<string>} [folded] the ids of those that are folded now
 */
export function toggleFold(id, folded = foldedGroups()) {
  if (!folded.delete(id)) folded.add(id);
  setQuery({ fold: [...folded].sort().join(",") });
}
