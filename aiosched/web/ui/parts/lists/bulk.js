// One action on the selected rows of a list, with one preview of all that it touches.
import { html } from "../../lib/html.js";
import { post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { runName, taskName } from "../../lib/names.js";
import { stateOf } from "../../lib/states.js";
import { Loading, Notice, State } from "../basics.js";
import { Counts, useDryRun } from "../actions/touched.js";
import { Confirm, toast } from "../dialog.js";
import { SelectField } from "../form.js";
import { Table } from "../table.js";

/** @typedef {{ runs?: { dag_id: string, run_id: string }[], tasks?: object[] }} Places */
/** @typedef {import("../actions/touched.js").DryRun<Api["BulkAnswer"]>} Seen */

/** @param {number} number @param {string} noun */
const many = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** @param {Seen & { ofNotes: boolean }} props */
function Preview({ preview: answer, error, ofNotes }) {
  if (error) return html`<${Notice} kind="danger">${error.message}<//>`;
  if (!answer) return html`<${Loading} lines=${3} />`;
  /** @type {Column<Api["BulkTouched"]>[]} */
  const columns = [
    { head: "DAG", cell: (one) => one.dag_id },
    { head: "Run", cell: (one) => html`<span title=${one.run_id}>${runName(one.run_id)}</span>` },
    { head: "Task", cell: (one) => taskName(one) },
    { head: "State", cell: (one) => html`<${State} name=${one.state ?? "none"} />` },
  ];
  const runs = `${many(answer.runs, "run")} of ${many(answer.dags, "DAG")}`;
  const shown = answer.instances.slice(0, 100);
  return html`
    <div class="stack tight" role="status">
      <b>${ofNotes ? `Notes in ${runs}` : `Touches ${many(answer.count, "task instance")} in ${runs}`}</b>
      <${Counts} states=${answer.states} />
      <div class="scroll preview" tabindex="0" role="group" aria-label="Touched task instances">
        <${Table}
          columns=${columns}
          items=${shown}
          keyOf=${(/** @type {Api["BulkTouched"]} */ one) =>
            `${one.dag_id} ${one.run_id} ${one.task_id} ${one.map_index}`
          }
          empty=${null}
        />
      </div>
      ${answer.refused.map((one) => html`
        <${Notice} kind="warn">
          ${one.dag_id} ${one.about}: ${one.detail}
        <//>
      `)}
    </div>
  `;
}

/**
 * What is chosen besides the rows: a state, a note, or failed instances only.
 * @param {{ action: string, ofRuns: boolean, choice: Record<string, unknown>,
 *   setChoice: (choice: Record<string, unknown>) => void }} props
 */
function Choice({ action, ofRuns, choice, setChoice }) {
  if (action === "mark")
    return html`
      <${SelectField}
        id="bulk-state"
        label="State"
        value=${String(choice.state)}
        options=${["success", "failed", ofRuns ? "queued" : "skipped"].map((one) => [one, stateOf(one).label])}
        onText=${(/** @type {string} */ state) => setChoice({ state })}
      />
    `;
  if (action === "note")
    return html`
      <div class="field">
        <label for="bulk-note">Note</label>
        <textarea
          class="input"
          id="bulk-note"
          rows="3"
          maxlength="1000"
          value=${String(choice.note)}
          onInput=${(/** @type {FieldEvent} */ e) => setChoice({ note: e.target.value })}
        />
        <span class="help">Replaces the notes of the selected rows; leave it empty to remove them.</span>
      </div>
    `;
  return action === "clear" && ofRuns ? html`
    <label class="row">
      <input
        type="checkbox"
        checked=${!!choice.only_failed}
        onChange=${(/** @type {FieldEvent} */ e) => setChoice({ only_failed: e.target.checked })}
      />${" "}
      Only failed
    </label>
  ` : null;
}

/** @type {Record<string, Record<string, unknown>>} */
const FIRST = { mark: { state: "success" }, note: { note: "" }, clear: { only_failed: true }, cancel: {} };

/**
 * @param {DialogProps & { action: string, noun: string, count: number, places: Places }} props
 */
export function BulkDialog({ action, noun, count, places, onClose, onDone }) {
  const ofRuns = Boolean(places.runs);
  const [choice, setChoice] = useDraft(
    ["bulk", action, places],
    action === "clear" && !ofRuns ? {} : FIRST[action],
  );
  const body = { action, ...places, ...choice };
  /** @type {Seen} */
  const seen = useDryRun("bulk", { ...body, ...(action === "note" && { note: "" }) }); // the text touches nothing else
  const title = `${action[0].toUpperCase()}${action.slice(1)} ${many(count, noun)}`;
  const nothing = !seen.preview || (seen.preview.runs === 0 && action !== "note");
  const act = async () => {
    const answer = await post("bulk", body);
    if (answer.refused.length)
      toast(`${many(answer.refused.length, "request")} refused: ${answer.refused[0].detail}`, "danger");
    return answer.waiting ? { accepted: true } : answer;
  };
  return html`
    <${Confirm}
      title=${title}
      submitLabel=${action === "clear" && seen.preview ? `Clear ${seen.preview.count}` : title}
      act=${act}
      done=${(/** @type {Api["BulkAnswer"]} */ { runs }) =>
        runs
          ? `Done: ${action} ${ofRuns ? "" : "task instances in "}${many(runs, "run")}.`
          : "Nothing was changed."
      }
      danger=${action === "cancel"}
      disabled=${nothing}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${Choice} action=${action} ofRuns=${ofRuns} choice=${choice} setChoice=${setChoice} />
      <${Preview} ...${seen} ofNotes=${action === "note"} />
    <//>
  `;
}
