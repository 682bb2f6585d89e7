// The grid's data, kept fresh: news of running runs are applied to it, everything else is read again.
import { useEffect, useRef } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { patchRun, patchTasks } from "../../lib/gridmodel.js";
import { watchTopic } from "../../lib/live.js";
import { useResource } from "../../lib/resources.js";

const WATCHED = 5; // running runs whose tasks are told live

const CALM = 700; // milliseconds: news come in flocks

/**
 * @param {string} dagId
 * @param {object} params of the API's grid: which runs
 */
export function useGrid(dagId, params) {
  const watched = useRef(new Set()).current;
  const later = useRef(null);
  const grid = useResource(at("dags", dagId, "grid"), params, {
    kinds: ["run", "task", "dag"],
    concerns: (patch) => patch.kind !== "run" || patch.dag_id === dagId,
    onNews: (data, patch) => {
      const next = patched(data, patch, watched);
      if (next) return next;
      later.current ??= setTimeout(() => {
        later.current = null;
        grid.reload();
      }, CALM);
      return data;
    },
  });
  useRunningTasks(grid.data.value?.runs ?? [], watched);
  useEffect(() => () => clearTimeout(later.current), []);
  return grid;
}

function patched(data, patch, watched) {
  if (patch.kind === "run") return patchRun(data, patch, watched);
  return patch.kind === "task" ? patchTasks(data, patch) : undefined;
}

/** Hear of the tasks of the newest runs that are not over; `watched` gets their keys. */
function useRunningTasks(runs, watched) {
  const running = runs
    .filter((run) => run.state === "running" || run.state === "queued")
    .slice(-WATCHED)
    .map((run) => run.key)
    .join(" ");
  useEffect(() => {
    const keys = running.split(" ").filter(Boolean).map(Number);
    const ends = keys.map((key) => {
      watched.add(key);
      return watchTopic(`run:${key}`);
    });
    return () => {
      ends.forEach((end) => end());
      keys.forEach((key) => watched.delete(key));
    };
  }, [running]);
}
