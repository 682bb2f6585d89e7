// The selection of the grid: its details and actions.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { labelAndId, runTitle } from "../../lib/names.js";
import { path } from "../../lib/router.js";
import { byState } from "../../lib/states.js";
import { ClearDialog } from "../actions/clear.js";
import { MarkDialog } from "../actions/mark.js";
import { Link, State } from "../basics.js";
import { IdOf } from "../copy.js";
import { readCell } from "./model.js";
import { FailedInstance, Panel } from "./panel.js";

/** @typedef {import("../actions/clear.js").Selection} Selection */
/** @typedef {import("./model.js").Cell} Cell */

/**
 * `many`: more than one cell is selected; `dialog` is "clear", "mark" or null.
 * @param {{ dagId: string, run: Api["RunResource"], row: Api["Row"] | undefined, cell: Cell, selection: Selection,
 *   many: boolean, open: () => void, dialog: string | null, setDialog: (dialog: string | null) => void }} props
 */
export function Selected({ dagId, run, row, cell, selection, many, open, dialog, setDialog }) {
  const close = () => setDialog(null);
  return html`
    <section class="selected card" aria-label="Selected">
      <div class="row apart">
        <div class="row">
          ${many ? html`
            <${Many} selection=${selection} />
          ` : row ? html`
            <b>${labelAndId(row)[0]}</b>
            <${IdOf} id=${row.id} name=${labelAndId(row).length > 1 ? row.label : null} />
            <${CellState} cell=${cell} />
          ` : html`
            <b>Run</b>
            <${State} name=${run.state} />
          `}
          ${!many && html`
            <${Link} to=${path("dags", dagId, "runs", run.run_id)} class="clip" title=${run.run_id}>
              ${runTitle(run)}
            <//>
          `}
        </div>
        <div class="row">
          ${!many && html`
            <button class="button small" onClick=${open}>
              ${row?.kind === "group" ? "Fold or unfold" : "Open"}
            </button>
          `}
          ${may("operator") && html`
            <button class="button small" onClick=${() => setDialog("clear")}>
              Clear …
            </button>
          `}
          ${may("operator") && !many && row?.kind !== "group" && html`
            <button class="button small" onClick=${() => setDialog("mark")}>
              Mark …
            </button>
          `}
        </div>
      </div>
      ${!many && row?.kind !== "group" && html`<${Inside} dagId=${dagId} run=${run} row=${row} cell=${cell} />`}
      ${dialog === "clear" && html`<${ClearDialog} dagId=${dagId} selection=${selection} onClose=${close} />`}
      ${dialog === "mark" && html`
        <${MarkDialog}
          dagId=${dagId}
          runId=${run.run_id}
          taskId=${row?.kind === "task" ? row.id : undefined}
          onClose=${close}
        />
      `}
    </section>
  `;
}

/**
 * The panel of a run or a task; of a mapped task, the way to its instances.
 * @param {{ dagId: string, run: Api["RunResource"], row: Api["Row"] | undefined, cell: Cell }} props
 */
function Inside({ dagId, run, row, cell }) {
  const key = `${run.key} ${row?.id ?? ""}`;
  if (row?.is_mapped)
    return html`
      ${readCell(cell)?.counts?.failed && html`
        <${FailedInstance} key=${key} dagId=${dagId} run=${run} task=${row.id} />
      `}
      <${Link} to=${path("dags", dagId, "runs", run.run_id, "tasks", row.id)}>View its instances<//>
    `;
  return html`<${Panel} key=${key} dagId=${dagId} run=${run} task=${row?.id} />`;
}

/** @param {{ selection: Selection }} props */
function Many({ selection: { task_ids, run_ids } }) {
  const tasks = task_ids ? `${task_ids.length} ${task_ids.length === 1 ? "task" : "tasks"}` : "All tasks";
  return html`
    <b>
      ${tasks} in ${run_ids.length} ${run_ids.length === 1 ? "run" : "runs"}
    </b>
  `;
}

/**
 * A cell of the API's Grid: a state, counts of states, or nothing.
 * @param {{ cell: Cell }} props
 */
function CellState({ cell }) {
  if (!cell) return html`<span class="soft">not in this run</span>`;
  if (typeof cell === "string") return html`<${State} name=${cell} />`;
  return byState(cell).map(([name, n]) => html`<${State} name=${name} count=${n} />`);
}
