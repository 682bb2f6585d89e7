// Which groups of tasks are folded: it stands in the address, for the grid and the graph alike.
import { query, setQuery } from "../../lib/router.js";

/** The ids of the folded groups. */
export const foldedGroups = () => new Set((query.value.fold ?? "").split(",").filter(Boolean));

/** @param {string} id of the group that is folded or unfolded */
export function toggleFold(id) {
  const folded = foldedGroups();
  if (!folded.delete(id)) folded.add(id);
  setQuery({ fold: [...folded].sort().join(",") });
}
