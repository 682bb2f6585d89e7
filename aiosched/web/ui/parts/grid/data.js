// The data of the grid, kept up to date: patches of running runs are applied, everything else triggers a reload.
import { useEffect, useRef } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { patchRun, patchTasks } from "./model.js";
import { watchTopic } from "../../lib/live.js";
import { useResource } from "../../lib/resources.js";

const WATCHED = 5; // running runs whose task changes are received live

const RELOAD_DELAY = 700; // milliseconds: patches come in bursts

/**
 * @param {string} dagId
 * @param {object} params of the API's grid: which runs to show
 */
export function useGrid(dagId, params) {
  const watched = useRef(new Set()).current;
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  /** @type {Resource<Api["Grid"]>} */
  const grid = useResource(at("dags", dagId, "grid"), params, {
    kinds: ["run", "task", "dag"],
    concerns: (patch) => patch.kind !== "run" || patch.dag_id === dagId,
    onUpdate: (data, patch) => {
      const next = patched(data, patch, watched);
      if (next) return next;
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        grid.reload();
      }, RELOAD_DELAY);
      return data;
    },
  });
  useRunningTasks(grid.data.value?.runs ?? [], watched);
  useEffect(() => () => clearTimeout(timer.current), []);
  return grid;
}

/**
 * @param {Api["Grid"]} data
 * @param {Patch} patch
 * @param {Set<number>} watched
 */
function patched(data, patch, watched) {
  if (patch.kind === "run") return patchRun(data, patch, watched);
  return patch.kind === "task" ? patchTasks(data, patch) : undefined;
}

/**
 * Subscribe to the tasks of the newest unfinished runs; their keys are added to `watched`.
 * @param {Api["RunResource"][]} runs
 * @param {Set<number>} watched
 */
function useRunningTasks(runs, watched) {
  const running = runs
    .filter((run) => run.state === "running" || run.state === "queued")
    .slice(-WATCHED)
    .map((run) => run.key)
    .join(" ");
  useEffect(() => {
    const keys = running.split(" ").filter(Boolean).map(Number);
    const unsubscribe = keys.map((key) => {
      watched.add(key);
      return watchTopic(`run:${key}`);
    });
    return () => {
      unsubscribe.forEach((stop) => stop());
      keys.forEach((key) => watched.delete(key));
    };
  }, [running]);
}
