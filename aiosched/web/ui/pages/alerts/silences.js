// Silences: what nothing is sent about for a time, by whom and why; create and end them.
import { serverNow } from "../../lib/freshness.js";
import { html, useState } from "../../lib/html.js";
import { at, may, mayEverywhere, post, remove } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { useList } from "../../lib/resources.js";
import { path, query } from "../../lib/router.js";
import { Card, Empty, Link, When } from "../../parts/basics.js";
import { Confirm } from "../../parts/dialog.js";
import { Choices } from "../../parts/facts.js";
import { InputField, SelectField } from "../../parts/form.js";
import { Table } from "../../parts/table.js";

/** @typedef {Api["SilenceResource"]} Silence */

/** @type {Choice[]} */
const TIMES = [
  ["1800", "30 minutes"],
  ["3600", "1 hour"],
  ["7200", "2 hours"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["604800", "7 days"],
];

export function Silences() {
  const everything = query.value.state === "all";
  /** @type {List<Silence>} */
  const list = useList("alert-silences", { is_active: everything ? null : true });
  const [open, setOpen] = useState(/** @type {Silence | "new" | null} */ (null));
  const empty = html`
    <${Empty} title="Nothing is silenced">
      A silence holds back the messages about an alert, a DAG or a tag for a time. Alerts open and recover as
      ever.
    <//>
  `;
  return html`
    <div class="stack tight">
      <div class="row">
        <${Choices} name="state" label="State" options=${[["all", "also ended"]]} />
        ${may("operator") && html`
          <button class="button primary" onClick=${() => setOpen("new")}>
            Silence …
          </button>
        `}
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(s) => s.id}
          empty=${empty}
          caption="Silences, newest first"
        />
      <//>
      ${open === "new" && html`<${SilenceDialog} onClose=${() => setOpen(null)} onDone=${() => list.reload()} />`}
      ${open && open !== "new" && html`
        <${EndDialog} silence=${open} onClose=${() => setOpen(null)} onDone=${() => list.reload()} />
      `}
    </div>
  `;
}

/** @param {Silence} silence */
const wordsOf = ({ dag_id, tag, subject, rule }) =>
  dag_id ? `DAG ${dag_id}` : tag ? `tag ${tag}` : `${subject} (${rule})`;

/** @param {{ silence: Silence }} props */
function About({ silence }) {
  const words = wordsOf(silence);
  if (silence.dag_id) return html`<${Link} to=${path("dags", silence.dag_id)}>${words}<//>`;
  if (silence.tag) return html`<${Link} to=${`/dags?tag=${encodeURIComponent(silence.tag)}`}>${words}<//>`;
  return html`<span>${words}</span>`;
}

/**
 * @param {(silence: Silence) => void} setOpen
 * @returns {Column<Silence>[]}
 */
const columnsOf = (setOpen) => [
  { head: "About", cell: (s) => html`<${About} silence=${s} />` },
  { head: "Reason", cell: (s) => s.reason },
  { head: "By", cell: (s) => s.created_by },
  { head: "Since", cell: (s) => html`<${When} at=${s.created_at} ago />` },
  { head: "Until", cell: (s) => html`<${When} at=${s.ends_at} ago />` },
  {
    head: "",
    cell: (s) =>
      s.ended_by ? html`
        <span class="faint">ended by ${s.ended_by}</span>
      ` : may("operator") && Date.parse(s.ends_at) > serverNow() ? html`
        <button
          class="button small"
          aria-label=${`End the silence of ${wordsOf(s)}`}
          onClick=${() => setOpen(s)}
        >
          End
        </button>
      ` : null,
  },
];

/**
 * Silence an alert, or what is chosen in the dialog.
 * @param {DialogProps & { alert?: Api["AlertResource"] }} props
 */
export function SilenceDialog({ alert, onClose, onDone }) {
  const [draft, setDraft] = useDraft(["silence", alert?.id], {
    kind: "dag_id",
    name: "",
    seconds: "7200",
    reason: "",
  });
  /** @param {Record<string, string>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const [only] = alert?.dag_ids.length === 1 ? alert.dag_ids : [];
  const kind = alert
    ? draft.kind === "dag_id" && draft.name === only && only
      ? "dag_id"
      : "alert"
    : draft.kind;
  const about = kind === "alert" ? { alert: alert?.id } : { [kind]: draft.name.trim() };
  return html`
    <${Confirm}
      title=${alert ? `Silence ${alert.subject}` : "Silence a DAG or a tag"}
      submitLabel="Silence"
      act=${() => post("alert-silences", { ...about, seconds: Number(draft.seconds), reason: draft.reason })}
      done="Silenced: no messages until it ends."
      disabled=${!draft.reason.trim() || (kind !== "alert" && !draft.name.trim())}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${alert && only && html`
        <${SelectField}
          id="silence-about"
          label="What"
          value=${kind}
          options=${[
            ["alert", "this alert"],
            ["dag_id", `all alerts about ${only}`],
          ]}
          onText=${(/** @type {string} */ text) =>
            set(text === "dag_id" ? { kind: "dag_id", name: only } : { kind: "alert", name: "" })
          }
        />
      `}
      ${!alert && html`<${Target} draft=${draft} set=${set} />`}
      <${SelectField}
        id="silence-time"
        label="For"
        value=${draft.seconds}
        options=${TIMES}
        onText=${(/** @type {string} */ seconds) => set({ seconds })}
      />
      <${InputField}
        id="silence-reason"
        label="Reason"
        value=${draft.reason}
        maxlength="1000"
        help="Others read it."
        onText=${(/** @type {string} */ reason) => set({ reason })}
      />
      <p class="faint">
        Messages wait; the alert stays open here. What is still open when the silence ends is sent then.
      </p>
    <//>
  `;
}

/** @param {{ draft: Record<string, string>, set: (change: Record<string, string>) => void }} props */
function Target({ draft, set }) {
  /** @type {Choice[]} */
  const kinds = [["dag_id", "a DAG"]];
  if (mayEverywhere("operator")) kinds.push(["tag", "the DAGs with a tag"]);
  return html`
    <${SelectField}
      id="silence-kind"
      label="What"
      value=${draft.kind}
      options=${kinds}
      onText=${(/** @type {string} */ kind) => set({ kind })}
    />
    <${InputField}
      id="silence-name"
      label=${draft.kind === "tag" ? "Tag" : "DAG"}
      value=${draft.name}
      maxlength="250"
      onText=${(/** @type {string} */ name) => set({ name })}
    />
  `;
}

/** @param {DialogProps & { silence: Silence }} props */
function EndDialog({ silence, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`End the silence of ${wordsOf(silence)}`}
      submitLabel="End silence"
      act=${() => remove(at("alert-silences", silence.id))}
      done="The silence has ended."
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>What is open is sent at the next evaluation.</p>
    <//>
  `;
}
