// Schedulers and workers: their status, partition ownership and performance.
import { html, useEffect, useState } from "../lib/html.js";
import { quantile, since, together } from "../lib/figures.js";
import { useResource } from "../lib/resources.js";
import { Card, Empty, Page, Shown } from "../parts/basics.js";
import { EVERY, Fleet } from "./schedulers/fleet.js";
import { History } from "./schedulers/history.js";
import { figure } from "./schedulers/scheduler.js";

/** @typedef {import("./schedulers/scheduler.js").Scheduler} Scheduler */
/** @typedef {import("./schedulers/fleet.js").Sample} Sample */
/** @typedef {import("./schedulers/fleet.js").Database} Database */

const MAX_SAMPLES = 360; // samples shown in the charts

/** @param {Scheduler[]} items */
const ended = (items) =>
  items.reduce((sum, one) => sum + Object.values(one.figures?.finished ?? {}).reduce((a, b) => a + b, 0), 0);

/**
 * A sample of all schedulers, relative to the previous one.
 * @param {Scheduler[]} items
 * @param {Sample | undefined} before
 * @returns {Sample}
 */
function sample(items, before) {
  const lag = together(items.map((one) => figure(one, "task_lag")));
  const commit = together(items.map((one) => figure(one, "journal_commit")));
  const now = { at: Date.now() / 1000, lag, commit, done: ended(items) };
  const fresh = lag && before?.lag ? since(lag, before.lag) : null;
  return {
    ...now,
    p50: quantile(fresh, 0.5),
    p99: quantile(fresh, 0.99),
    rate: before ? Math.max(now.done - before.done, 0) / Math.max(now.at - before.at, 0.001) : null,
  };
}

export function Schedulers() {
  /** @type {Resource<{ items: Scheduler[], database: Database | null }>} */
  const found = useResource("schedulers", {}, { kinds: ["scheduler"] });
  const [history, setHistory] = useState(/** @type {Sample[]} */ ([]));
  useEffect(() => {
    const poll = setInterval(() => {
      if (!document.hidden) found.reload();
    }, EVERY);
    return () => clearInterval(poll);
  }, [found]);
  const data = found.data.value;
  useEffect(() => {
    if (data) setHistory((before) => [...before.slice(1 - MAX_SAMPLES), sample(data.items, before.at(-1))]);
  }, [data]);
  return html`
    <${Page} title="Schedulers and workers">
      <div class="stack">
        <${Shown} of=${found}>
          ${({ items, database }) =>
            items.length ? html`
              <${Fleet} items=${items} database=${database} history=${history} />
            ` : html`
              <${Card}>
                <${Empty} title="No scheduler is running" command="aiosched serve">
                  Runs wait until one starts.
                <//>
              <//>
            `
          }
        <//>
        <${History} names=${[...new Set((data?.items ?? []).map((one) => one.name))]} />
      </div>
    <//>
  `;
}
