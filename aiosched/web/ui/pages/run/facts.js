// What a run is, in words and figures.
import { html } from "../../lib/html.js";
import { byState } from "../../lib/states.js";
import { Parts } from "../../parts/facts.js";

export const REASONS = {
  task_failure: "A task failed, and with it the run.",
  all_tasks_deadlocked: "No task could go on: what is unfinished waits for what will not come.",
  deadline_missed: "It missed its deadline.",
};

export function StateBar({ tasks }) {
  const all = Object.values(tasks).reduce((a, b) => a + b, 0);
  if (!all) return null;
  const found = byState(tasks);
  return html`
    <${Parts}
      label=${found.map(([s, n]) => `${n} ${s.replaceAll("_", " ")}`).join(", ")}
      parts=${[...found]
        .reverse()
        .map(([s, n]) => ({ share: n / all, name: `state-${s}`, words: `${n} ${s.replaceAll("_", " ")}` }))}
    />
  `;
}
