// What the search offers: pages, actions, places visited last, and what the server has found; the best matches first.
import { may, mayEverywhere } from "../../lib/api.js";
import { path } from "../../lib/router.js";
import { setTheme } from "../../lib/theme.js";
import { switchZone } from "../../lib/time.js";

/**
 * An entry: `to` is where it leads, `act` what it does, `dialog` the action whose dialog it opens for `dagId`.
 * @typedef {{ kind: string, name: string, detail?: string | null, state?: string | null, to?: string, match?: number,
 *   act?: () => void, dialog?: "clear" | "pause" | "unpause", dagId?: string, runId?: string }} Entry
 */

const ORDER = ["action", "dag", "task", "run", "asset", "pool", "page"];

/**
 * How well a name matches: 0 for all of it to 4 for its letters in this order, as the server counts; null: not.
 * @param {string} typed
 * @param {string} name
 */
export function matchOf(typed, name) {
  const [words, lowered] = [typed.toLowerCase().trim(), name.toLowerCase()];
  const place = lowered.indexOf(words);
  if (place === 0) return words.length === lowered.length ? 0 : 1;
  if (place > 0) return /[\s_\-./:]/.test(lowered[place - 1]) ? 2 : 3;
  if (/\s/.test(lowered)) return null; // of sentences, nearly everything would match
  let at = 0;
  for (const letter of lowered) if (letter === words[at]) at++;
  return at === words.length ? 4 : null;
}

/**
 * The ids in the path of a page of a DAG, a run or a task; an asset has a name only.
 * @param {string} place
 */
function partsOf(place) {
  const [room, first, , run, , task] = place.split("/").slice(1).map(decodeURIComponent);
  return room === "dags" ? { dag: first, run, task } : { asset: first };
}

/**
 * @param {string} place  a path that was visited
 * @returns {Entry}
 */
function visited(place) {
  const { dag, run, task, asset } = partsOf(place);
  if (task) return { kind: "task", name: task, detail: `${dag} · ${run}`, to: place };
  if (run) return { kind: "run", name: run, detail: dag, to: place };
  return dag ? { kind: "dag", name: dag, to: place } : { kind: "asset", name: asset ?? "", to: place };
}

/**
 * What can be done with a DAG, or with one of its runs.
 * @param {string} dag
 * @param {string} [run]
 * @returns {Entry[]}
 */
function actionsOn(dag, run) {
  /** @type {{ kind: string, detail: string, dagId: string }} */
  const shared = { kind: "action", detail: dag, dagId: dag };
  /** @param {string} query */
  const page = (query) => `${path("dags", dag)}?${query}`;
  /** @type {Entry[]} */
  const changes = [
    { ...shared, name: "Trigger a run", to: page("trigger=1") },
    { ...shared, name: "Run a backfill", to: page("backfill=1") },
    {
      ...shared,
      name: "Clear failed tasks",
      detail: run ? `${dag} · ${run}` : dag,
      dialog: "clear",
      runId: run,
    },
    { ...shared, name: "Pause the DAG", dialog: "pause" },
    { ...shared, name: "Unpause the DAG", dialog: "unpause" },
  ];
  return [
    ...(may("operator") ? changes : []),
    { ...shared, name: "View runs of the DAG", to: page("tab=runs") },
    { ...shared, name: "View code of the DAG", to: page("tab=code") },
    { ...shared, name: "View what changed in the code", to: page("tab=code&against=previous") },
  ];
}

/**
 * What can be done here: with the DAG that is open, and with the window.
 * @param {string} place  the path of the open page
 * @returns {Entry[]}
 */
export function actionsAt(place) {
  const { dag, run } = partsOf(place);
  const found = dag ? actionsOn(dag, run) : [];
  if (mayEverywhere("admin"))
    found.push({ kind: "action", name: "Grant access to DAGs", to: "/users?tab=grants&grant=1" });
  found.push(
    { kind: "action", name: "Switch between UTC and local time", act: switchZone },
    { kind: "action", name: "Dark theme", act: () => setTheme("dark") },
    { kind: "action", name: "Light theme", act: () => setTheme("light") },
  );
  return found;
}

/**
 * @param {Api["SearchHit"]} hit
 * @returns {Entry}
 */
function found({ kind, name, display_name, dag_id, state, match }) {
  const dag = dag_id ?? name;
  const to = {
    dag: path("dags", dag),
    task: `${path("dags", dag)}?task=${encodeURIComponent(name)}`,
    run: path("dags", dag, "runs", name),
    asset: path("assets", name),
    pool: `/pools?pool=${encodeURIComponent(name)}`,
  }[kind];
  return { kind, name: display_name ?? name, detail: display_name ? name : dag_id, state, match, to };
}

/**
 * What tells entries apart.
 * @param {Entry} entry
 */
export const keyOf = ({ kind, to, name, dagId = "" }) => `${kind} ${to ?? `${name} ${dagId}`}`;

/**
 * The actions on the DAG whose name was typed, or begins so: they follow it.
 * @param {Api["SearchHit"][]} hits
 */
function actionsOnFirst(hits) {
  const dag = hits.find(({ kind, match }) => kind === "dag" && match <= 1);
  return dag ? actionsOn(dag.name).map((entry) => ({ ...entry, match: dag.match + 0.5 })) : [];
}

/**
 * The entries for what is typed: nothing typed: places visited last, actions and pages.
 * @param {{ typed: string, hits: Api["SearchHit"][], recent: string[], place: string, pages: Entry[] }} given
 * @returns {Entry[]}
 */
export function entriesFor({ typed, hits, recent, place, pages }) {
  const offered = [...actionsAt(place), ...pages];
  const visits = recent.filter((one) => one !== place).map(visited);
  if (!typed.trim()) return [...visits.slice(0, 6), ...offered];
  const own = [...visits, ...offered].flatMap((entry) => {
    const match = matchOf(typed, entry.name);
    return match === null ? [] : [{ ...entry, match }];
  });
  const known = new Map(
    [...own, ...hits.map(found), ...actionsOnFirst(hits)].map((entry) => [keyOf(entry), entry]),
  );
  /** @param {Entry} entry */
  const rank = (entry) => [
    entry.match ?? 0,
    entry.to && recent.includes(entry.to) ? recent.indexOf(entry.to) : recent.length,
    ORDER.indexOf(entry.kind),
  ];
  return [...known.values()]
    .map((entry) => ({ entry, rank: rank(entry) }))
    .sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || a.rank[2] - b.rank[2])
    .map(({ entry }) => entry)
    .slice(0, 40);
}
