// Resources that change with the tasks of a run: its graph, its Gantt chart.
import { useEffect, useRef } from "../lib/html.js";
import { watchTopic } from "../lib/live.js";
import { useResource } from "../lib/resources.js";

/**
 * A resource of a run, reloaded at most once per second while its tasks change.
 * @template T
 * @param {string | null} address
 * @param {string} dagId
 * @param {Api["RunResource"] | null} run
 * @param {object} [params]
 * @returns {Resource<T>}
 */
export function useRunResource(address, dagId, run, params) {
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  const found = useResource(address, params, {
    kinds: ["task", "run"],
    concerns: (patch) =>
      patch.kind === "task"
        ? patch.run === run?.key
        : patch.dag_id === dagId && (!run || patch.key === run.key),
    onUpdate: (data) => {
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        found.reload();
      }, 1000);
      return data;
    },
  });
  const key = run && (run.state === "running" || run.state === "queued") ? run.key : null;
  useEffect(() => (key === null ? undefined : watchTopic(`run:${key}`)), [key]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return found;
}
