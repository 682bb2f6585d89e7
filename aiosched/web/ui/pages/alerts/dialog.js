// The dialog for creating or changing an alert rule.
import { html } from "../../lib/html.js";
import { at, get, put } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { Meanwhile, useMeanwhile } from "../../parts/condition.js";
import { Confirm } from "../../parts/dialog.js";
import { InputField, SelectField } from "../../parts/form.js";
import { KINDS, RUN_TYPES, SECONDS, SEVERITIES, hasDags, hasRuns, runsWords } from "./words.js";

/** @typedef {Record<string, string>} Draft */
/** @typedef {{ draft: Draft, set: (change: Draft) => void }} DraftProps */

/** @param {DialogProps & { rule?: Api["AlertRuleResource"], notifiers: string[] }} props */
export function RuleDialog({ rule, notifiers, onClose, onDone }) {
  const [draft, setDraft] = useDraft(["rule", rule?.name], draftOf(rule, notifiers));
  /** @param {Draft} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { theirs, save } = useMeanwhile(rule, () => get(at("alert-rules", rule?.name ?? "")));
  return html`
    <${Confirm}
      title=${rule ? `Rule ${rule.name}` : "New rule"}
      submitLabel="Save"
      act=${() => save((options) => put(at("alert-rules", draft.name), bodyOf(draft), options))}
      done=${`Rule ${draft.name} saved.`}
      disabled=${!draft.name || !draft.notifier}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${!rule && html`<${Text} draft=${draft} set=${set} name="name" label="Name" maxlength="100" />`}
      <${SelectField}
        id="rule-kind"
        label="Watches"
        value=${draft.kind}
        options=${KINDS}
        onText=${(/** @type {string} */ kind) => set({ kind })}
      />
      <${SelectField}
        id="rule-severity"
        label="Severity"
        value=${draft.severity}
        options=${Object.entries(SEVERITIES).map(([key, [, , words]]) => [key, words])}
        onText=${(/** @type {string} */ severity) => set({ severity })}
      />
      <${Notifier} draft=${draft} set=${set} notifiers=${notifiers} />
      <${Which} draft=${draft} set=${set} />
      <${WhenToTell} draft=${draft} set=${set} />
      <${Meanwhile} theirs=${theirs && draftOf(theirs, notifiers)} mine=${draft} onTake=${setDraft} />
    <//>
  `;
}

/** @param {DraftProps & { name: string, label: string, [attribute: string]: unknown }} props */
const Text = ({ draft, set, name, label, ...rest }) => html`
  <${InputField}
    id=${`rule-${name}`}
    label=${label}
    value=${draft[name]}
    onText=${(/** @type {string} */ text) => set({ [name]: text })}
    ...${rest}
  />
`;

/** @param {DraftProps & { notifiers: string[] }} props */
function Notifier({ draft, set, notifiers }) {
  if (!notifiers.length)
    return html`<p class="wrong">There are no notifiers: add a table [[alerts.notifiers]] to the settings.</p>`;
  const options = [...new Set([...notifiers, draft.notifier])].map((name) => [name, name]);
  return html`
    <${SelectField}
      id="rule-notifier"
      label="Notifier"
      value=${draft.notifier}
      options=${options}
      onText=${(/** @type {string} */ notifier) => set({ notifier })}
    />
  `;
}

/** @param {DraftProps} props */
function Which({ draft, set }) {
  return html`
    ${hasDags(draft.kind) && html`
      <${Text}
        draft=${draft}
        set=${set}
        name="dags"
        label="DAGs"
        help="Patterns such as sales_*, separated by commas; empty: all."
      />
      <${Text}
        draft=${draft}
        set=${set}
        name="tags"
        label="Tags"
        help="A DAG needs one of them; empty: any."
      />
      <${Text} draft=${draft} set=${set} name="owners" label="Owners" help="Empty: any." />
    `}
    ${hasRuns(draft.kind) && html`
      <${SelectField}
        id="rule-runs"
        label="Runs"
        value=${draft.run_types}
        options=${runChoices(draft.run_types)}
        onText=${(/** @type {string} */ run_types) => set({ run_types })}
      />
    `}
    ${SECONDS[draft.kind] && html`
      <${Text} draft=${draft} set=${set} name="seconds" label=${SECONDS[draft.kind]} type="number" min="0" />
    `}
    ${draft.kind === "run_long" && html`
      <${Text}
        draft=${draft}
        set=${set}
        name="factor"
        label="Times the usual p95"
        type="number"
        min="1"
        step="0.1"
        help="1.5 if both are empty."
      />
    `}
  `;
}

/** The usual choices, and what the rule has. @param {string} types @returns {Choice[]} */
const runChoices = (types) =>
  RUN_TYPES.some(([key]) => key === types) ? RUN_TYPES : [...RUN_TYPES, [types, runsWords(types.split(","))]];

/** @param {DraftProps} props */
function WhenToTell({ draft, set }) {
  return html`
    <${Text}
      draft=${draft}
      set=${set}
      name="remind_seconds"
      label="Remind every, in seconds"
      type="number"
      min="60"
      help="Empty: no reminders."
    />
    <${Text} draft=${draft} set=${set} name="quiet_from" label="Quiet hours from" type="time" />
    <${Text} draft=${draft} set=${set} name="quiet_until" label="Quiet hours until" type="time" />
    <${Text} draft=${draft} set=${set} name="time_zone" label="Time zone of the quiet hours" />
  `;
}

/**
 * @param {Api["AlertRuleResource"] | undefined} rule
 * @param {string[]} notifiers
 * @returns {Draft}
 */
const draftOf = (rule, notifiers) => ({
  name: rule?.name ?? "",
  kind: rule?.kind ?? "run_failed",
  notifier: rule?.notifier ?? notifiers[0] ?? "",
  dags: (rule?.dags ?? []).join(", "),
  tags: (rule?.tags ?? []).join(", "),
  owners: (rule?.owners ?? []).join(", "),
  run_types: (rule?.run_types ?? []).join(","),
  severity: rule?.severity ?? "warning",
  seconds: String(rule?.seconds ?? ""),
  factor: String(rule?.factor ?? ""),
  remind_seconds: String(rule?.remind_seconds ?? ""),
  quiet_from: rule?.quiet_from ?? "",
  quiet_until: rule?.quiet_until ?? "",
  time_zone: rule?.time_zone ?? "UTC",
});

/** @param {string} text */
const words = (text) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);

/** @param {string} text */
const number = (text) => (text === "" ? null : Number(text));

/**
 * The rule of a draft, with only the fields that its kind has.
 * @param {Draft} draft
 */
const bodyOf = (draft) => ({
  kind: draft.kind,
  notifier: draft.notifier,
  dags: hasDags(draft.kind) ? words(draft.dags) : [],
  tags: hasDags(draft.kind) ? words(draft.tags) : [],
  owners: hasDags(draft.kind) ? words(draft.owners) : [],
  run_types: hasRuns(draft.kind) ? words(draft.run_types) : [],
  severity: draft.severity,
  seconds: SECONDS[draft.kind] ? number(draft.seconds) : null,
  factor: draft.kind === "run_long" ? number(draft.factor) : null,
  remind_seconds: number(draft.remind_seconds),
  quiet_from: draft.quiet_from || null,
  quiet_until: draft.quiet_until || null,
  time_zone: draft.time_zone || "UTC",
});
