// The alert rules: create, change, pause, test and delete them.
import { classes, html, useState } from "../../lib/html.js";
import { at, mayEverywhere, patch, post } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { Card, Empty, Failure, Loading, Tag } from "../../parts/basics.js";
import { ConfirmDeletion } from "../../parts/condition.js";
import { Confirm } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";
import { RuleDialog } from "./dialog.js";
import { SEVERITIES, kindWords, runsWords, selectionWords } from "./words.js";

/** @typedef {Api["AlertRuleResource"]} Rule */
/** @typedef {(open: [action: string, rule?: Rule]) => void} Opener */

export function Rules() {
  if (mayEverywhere("operator")) return html`<${RuleList} />`;
  return html`<p class="faint">Alert rules require the operator role for all DAGs.</p>`;
}

function RuleList() {
  /** @type {Resource<Api["AlertRules"]>} */
  const found = useResource("alert-rules");
  const [open, setOpen] = useState(/** @type {[action: string, rule?: Rule] | null} */ (null));
  const rules = found.data.value;
  if (!rules)
    return html`
      <${Card}>
        <${NotYet} found=${found} />
      <//>
    `;
  const [act, rule] = open ?? [];
  const Dialog = act && DIALOGS[act];
  const empty = html`
    <${Empty} title="No alert rules">
      A rule says what is an alert, for which DAGs, and where it is sent.
    <//>
  `;
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button primary" onClick=${() => setOpen(["save"])}>
          New rule …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          items=${rules.items}
          keyOf=${(rule) => rule.name}
          empty=${empty}
          caption="Alert rules"
        />
      <//>
      ${Dialog && html`
        <${Dialog}
          rule=${rule}
          notifiers=${rules.notifiers}
          onClose=${() => setOpen(null)}
          onDone=${found.reload}
        />
      `}
    </div>
  `;
}

/** @param {{ found: Resource<Api["AlertRules"]> }} props */
function NotYet({ found }) {
  if (!found.error.value) return html`<${Loading} />`;
  return html`<${Failure} error=${found.error.value} retry=${found.reload} />`;
}

/** @param {{ rule: Rule }} props */
function State({ rule }) {
  if (rule.is_paused) return html`<${Tag}>paused<//>`;
  if (rule.error) return html`<span class="wrong">${rule.error}</span>`;
  return html`<${Tag} kind="good">✓ active<//>`;
}

/**
 * @param {Opener} setOpen
 * @returns {Column<Rule>[]}
 */
const columnsOf = (setOpen) => [
  { head: "Rule", cell: (rule) => rule.name },
  { head: "Watches", cell: (rule) => kindWords(rule.kind) },
  { head: "DAGs", cell: (rule) => selectionWords(rule) },
  { head: "Runs", cell: (rule) => runsWords(rule.run_types) },
  { head: "Severity", cell: (rule) => SEVERITIES[rule.severity]?.[2] ?? rule.severity },
  { head: "Notifier", cell: (rule) => rule.notifier },
  { head: "State", cell: (rule) => html`<${State} rule=${rule} />` },
  { head: "Open alerts", right: true, cell: (rule) => rule.open_alerts },
  { head: "", cell: (rule) => html`<${Actions} rule=${rule} setOpen=${setOpen} />` },
];

/** @param {{ rule: Rule, setOpen: Opener }} props */
function Actions({ rule, setOpen }) {
  /** @param {string} action @param {string} words */
  const button = (action, words) => html`
    <button
      class=${classes("button small", action === "delete" && "danger")}
      aria-label=${`${words} ${rule.name}`}
      onClick=${() => setOpen([action, rule])}
    >
      ${words} …
    </button>
  `;
  return html`
    <span class="row near">
      ${button("pause", rule.is_paused ? "Resume" : "Pause")} ${!rule.is_paused && button("test", "Test")}
      ${rule.from_settings ? html`
        <span class="faint">in the settings</span>
      ` : html`
        ${button("save", "Change")} ${button("delete", "Delete")}
      `}
    </span>
  `;
}

/** @param {DialogProps & { rule: Rule }} props */
function PauseDialog({ rule, onClose, onDone }) {
  const words = rule.is_paused ? "Resume" : "Pause";
  return html`
    <${Confirm}
      title=${`${words} ${rule.name}`}
      submitLabel=${words}
      act=${() => patch(at("alert-rules", rule.name), { is_paused: !rule.is_paused })}
      done=${`${rule.name} is ${rule.is_paused ? "active" : "paused"}.`}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        ${rule.is_paused ? "It watches what happens from now on." : "Its open alerts close without a message."}
      </p>
    <//>
  `;
}

/** @param {DialogProps & { rule: Rule }} props */
function DeleteDialog({ rule, onClose, onDone }) {
  return html`
    <${ConfirmDeletion}
      title=${`Delete ${rule.name}`}
      place=${at("alert-rules", rule.name)}
      read=${rule}
      done=${`Rule ${rule.name} deleted.`}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Its alerts are deleted, too.</p>
    <//>
  `;
}

/** @param {DialogProps & { rule: Rule }} props */
function TestDialog({ rule, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Test ${rule.name}`}
      submitLabel="Send test message"
      act=${() => post(at("alert-rules", rule.name, "test"))}
      done=${`The test message of ${rule.name} is sent at the next evaluation.`}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Sends a message by the notifier ${rule.notifier}, also in quiet hours.</p>
    <//>
  `;
}

/** @type {Record<string, Function>} */
const DIALOGS = { save: RuleDialog, pause: PauseDialog, delete: DeleteDialog, test: TestDialog };
