// Clear task instances, so that they run again.
import { html } from "../../lib/html.js";
import { at, post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { Confirm, commandLine } from "../dialog.js";
import { OPTIONS, Options, Preview, flagsOf, useDryRun } from "./touched.js";

/** @typedef {import("./touched.js").Flags} Flags */

/**
 * Task instances of runs: those of `task_ids`, or all.
 * @typedef {{ run_ids: string[], task_ids?: string[], map_index?: number }} Selection
 */

/** @param {number} n */
const tasks = (n) => `${n} ${n === 1 ? "task" : "tasks"}`;

/**
 * @param {string} dagId
 * @param {Partial<Selection>} selection
 * @param {Flags} options
 */
function clearLine(dagId, { run_ids, task_ids, map_index }, options) {
  const flags = flagsOf(options);
  if (!task_ids && run_ids?.length === 1) return commandLine("runs clear", [dagId, run_ids[0]], ...flags);
  return commandLine(
    "tasks clear",
    [dagId],
    ...(run_ids ?? []).flatMap((id) => ["--run", id]),
    ...(task_ids ?? []).flatMap((id) => ["--task-id", id]),
    ...(map_index !== undefined && map_index !== null ? ["--map-index", map_index] : []),
    ...flags,
  );
}

/**
 * Clear task instances. A `selection` without tasks means whole runs; `options` are the initial options.
 * @param {DialogProps & { dagId: string, selection: Partial<Selection>, options?: Flags }} props
 */
export function ClearDialog({ dagId, selection, options: initial = {}, onClose, onDone }) {
  const [options, setOptions] = useDraft(["clear", dagId, selection, initial], initial);
  const body = { ...selection, ...options };
  const { preview, error } = useDryRun(at("dags", dagId, "clear"), body);
  const what = selection.task_ids
    ? selection.task_ids.length === 1
      ? selection.task_ids[0]
      : `${selection.task_ids.length} tasks`
    : selection.run_ids?.length === 1
      ? "the run"
      : "runs";
  const usable = OPTIONS.filter(([, , , ofRuns]) => selection.task_ids || ofRuns);
  return html`
    <${Confirm}
      title=${`Clear ${what}`}
      submitLabel=${preview?.count ? `Clear ${preview.count}` : "Clear"}
      act=${() => post(at("dags", dagId, "clear"), body)}
      done=${(/** @type {Api["ClearAnswer"]} */ { count }) =>
        count
          ? `${tasks(count)} cleared and requeued.`
          : "Nothing was cleared: there is nothing to clear any more."
      }
      cli=${clearLine(dagId, selection, options)}
      disabled=${!preview || preview.count === 0}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${Options} usable=${usable} options=${options} setOptions=${setOptions} />
      <${Preview}
        preview=${preview}
        error=${error}
        none="Nothing here can be cleared."
        effect="will run again"
        label="Instances to clear"
      />
    <//>
  `;
}
