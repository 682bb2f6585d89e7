// Set the state of a run or of task instances.
import { html } from "../../lib/html.js";
import { at, post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { taskName } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { stateOf } from "../../lib/states.js";
import { Shown } from "../basics.js";
import { Confirm, commandLine } from "../dialog.js";
import { Counts, OPTIONS, Options, Preview, flagsOf, useDryRun } from "./touched.js";

const MARKS = OPTIONS.filter(([name]) => ["upstream", "downstream", "past", "future"].includes(name));

/**
 * What a state does to what is after it.
 * @param {string} state
 * @param {boolean} ofTask whether it is that of a task instance, not of a run
 */
function effectOf(state, ofTask) {
  if (state === "queued") return "The run continues with its remaining tasks.";
  return ofTask
    ? "Downstream instances that failed because of it run again."
    : "Unfinished task instances are set to this state; running ones are stopped.";
}

/**
 * Set the state of a run (without `taskId`) or of a task instance; without `mapIndex` of all instances of the task.
 * @param {DialogProps & { dagId: string, runId: string, taskId?: string, mapIndex?: number }} props
 */
export function MarkDialog({ dagId, runId, taskId, mapIndex, onClose, onDone }) {
  const states = taskId ? ["success", "failed", "skipped"] : ["success", "failed", "queued"];
  const mapped = mapIndex !== undefined && mapIndex !== null && mapIndex >= 0;
  const [draft, setDraft] = useDraft(["mark", dagId, runId, taskId, mapped && mapIndex], {
    state: "success",
    options: {},
  });
  const { state, options } = draft;
  /** @type {Resource<Api["RunDetails"]>} */
  const run = useResource(taskId ? null : at("dags", dagId, "runs", runId));
  const address = taskId
    ? at("dags", dagId, "runs", runId, "tasks", taskId, "mark")
    : at("dags", dagId, "runs", runId, "mark");
  const body = { state, ...(taskId && mapped && { map_index: mapIndex }), ...options };
  const { preview, error } = useDryRun(taskId ? address : null, body);
  const flags = [...(mapped ? ["--map-index", mapIndex] : []), ...flagsOf(options)];
  const cli = taskId
    ? commandLine("tasks mark", [dagId, runId, taskId, state], ...flags)
    : commandLine("runs mark", [dagId, runId, state]);
  return html`
    <${Confirm}
      title=${taskId ? `Mark ${taskName({ task_id: taskId, map_index: mapIndex })}` : "Mark the run"}
      submitLabel=${`Mark ${stateOf(state).label}`}
      act=${() => post(address, body)}
      done=${`Marked ${stateOf(state).label}.`}
      cli=${cli}
      disabled=${Boolean(taskId) && (!preview || preview.count === 0)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <div class="field">
        <label for="mark-state">State</label>
        <select
          class="input"
          id="mark-state"
          value=${state}
          onChange=${(e) => setDraft({ ...draft, state: e.target.value })}
        >
          ${states.map((one) => html`
            <option value=${one}>${stateOf(one).label}</option>
          `)}
        </select>
      </div>
      <p class="soft">
        In run <code>${runId}</code>. ${effectOf(state, Boolean(taskId))}
      </p>
      ${taskId ? html`
        <${Options}
          usable=${MARKS}
          options=${options}
          setOptions=${(/** @type {import("./touched.js").Flags} */ options) =>
            setDraft({ ...draft, options })
          }
        />
        <${Preview}
          preview=${preview}
          error=${error}
          none="Nothing here can be marked."
          effect=${`will be marked ${stateOf(state).label}`}
          label="Instances to mark"
        />
      ` : html`
        <${Shown} of=${run} lines=${1}>
          ${(facts) => html`<${Counts} states=${facts.tasks} />`}
        <//>
      `}
    <//>
  `;
}
