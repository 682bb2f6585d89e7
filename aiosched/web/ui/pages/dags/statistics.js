// The statistics of the DAGs of a list, loaded in batches.
import { useEffect, useMemo, useRef, useSignal } from "../../lib/html.js";
import { Problem, get } from "../../lib/api.js";
import { onPatch } from "../../lib/live.js";

const BATCH = 50; // DAGs per statistics request

/**
 * The statistics of many DAGs as a Map by id, loaded in batches; DAGs whose runs change are reloaded.
 * @param {string[]} ids
 */
export function useStatistics(ids) {
  /** @type {Signal<Map<string, Api["Statistics"]>>} */
  const known = useSignal(new Map());
  const loader = useMemo(() => {
    /** @type {Set<string>} */
    const wanted = new Set();
    /** @type {number | undefined} */
    let timer;
    const read = async () => {
      const some = [...wanted].slice(0, BATCH);
      some.forEach((id) => wanted.delete(id));
      try {
        /** @type {Api["StatisticsList"]} */
        const { items } = await get("dag-statistics", { dag_id: some });
        const next = new Map(known.value);
        for (const one of items) next.set(one.dag_id, one);
        known.value = next;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      } // the list itself shows the error
      timer = wanted.size ? setTimeout(read, 0) : undefined;
    };
    return {
      /**
       * @param {string[]} some
       * @param {number} delay in ms
       */
      load: (some, delay) => {
        some.forEach((id) => wanted.add(id));
        if (wanted.size) timer ??= setTimeout(read, delay);
      },
      end: () => clearTimeout(timer),
    };
  }, []);
  const shown = useRef(ids);
  shown.current = ids;
  useEffect(
    () =>
      loader.load(
        ids.filter((id) => !known.value.has(id)),
        0,
      ),
    [ids.join(" ")],
  );
  useEffect(() => {
    const off = onPatch((patch) => {
      if (patch.kind === "reset") loader.load(shown.current, 500);
      else if (patch.kind === "run" && shown.current.includes(patch.dag_id)) loader.load([patch.dag_id], 500);
    });
    return () => {
      off();
      loader.end();
    };
  }, []);
  return known.value;
}
