// Create a backfill, after a preview of what happens to each date.
import { serverNow } from "../../lib/freshness.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { get, post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { instant } from "../../lib/time.js";
import { useDryRun } from "../../parts/actions/touched.js";
import { Loading, Notice } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { objectOf } from "../../parts/facts.js";
import { InputField, SelectField } from "../../parts/form.js";

/** @type {Choice[]} */
const RERUN = [
  ["missing", "only dates without a run"],
  ["failed", "also dates whose run failed"],
  ["all", "every date"],
];

/** @type {Record<string, string>} */
const FATES = {
  create: "a run will be created",
  rerun: "its run will run again",
  "in flight": "skipped: its run is unfinished",
  "already exists": "skipped: it already has a run",
};

const SETTLED = 500; // milliseconds without a change, then the preview is asked for

/** @param {number} back in days */
const day = (back) => new Date(serverNow() - back * 86400e3).toISOString().slice(0, 10);

/**
 * A day or a timestamp as entered; a timestamp is in UTC unless it has an offset.
 * @param {string} text
 */
const dayOrInstant = (text) =>
  /^\d{4}-\d\d-\d\d$/.test(text) || /([zZ]|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`;

const DEFAULTS = {
  dag_id: "",
  from_date: "",
  to_date: "",
  rerun: "missing",
  max_active_runs: 10,
  backwards: false,
  conf: "",
};

/** @typedef {Omit<typeof DEFAULTS, "max_active_runs"> & { max_active_runs: number | string }} Draft */

/**
 * `initial` is what is filled in.
 * @param {DialogProps & { dagId: string | undefined, initial?: Partial<Draft> }} props
 */
export function BackfillDialog({ dagId, initial = {}, onClose, onDone }) {
  const [draft, setDraft] = useDraft(
    ["backfill", dagId, initial],
    /** @type {Draft} */ ({ ...DEFAULTS, dag_id: dagId ?? "", from_date: day(7), to_date: day(1), ...initial }),
  );
  const [settled, setSettled] = useState(draft);
  useEffect(() => {
    const due = setTimeout(() => setSettled(draft), SETTLED);
    return () => clearTimeout(due);
  }, [draft]);
  /** @param {Partial<Draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { value: conf, wrong } = objectOf(draft.conf);
  const body = bodyOf(draft, conf);
  const previewed = settled === draft && draft.dag_id !== "" && !wrong;
  /** @type {import("../../parts/actions/touched.js").DryRun<Planned>} */
  const { preview: plan, error } = useDryRun(previewed ? "backfills" : null, body);
  const count = plan?.dates?.filter(isRun).length ?? 0;
  return html`
    <${Confirm}
      title="New backfill"
      submitLabel=${plan ? `Run ${count} ${count === 1 ? "date" : "dates"}` : "Run"}
      act=${() => post("backfills", body)}
      done="Backfill created."
      disabled=${!plan || !count}
      cli=${createLine(draft)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${DagField} value=${draft.dag_id} onText=${(dag_id) => set({ dag_id })} />
      <${Fields} draft=${draft} set=${set} wrong=${wrong} />
      ${error && html`<${Notice} kind="danger">${error.message}<//>`}
      ${plan && html`<${Plan} plan=${plan} />`}
      ${previewed && !error && !plan && html`<${Loading} lines=${3} />`}
    <//>
  `;
}

/**
 * @param {Draft} draft
 * @param {Record<string, unknown> | undefined} conf
 */
const bodyOf = (draft, conf) => ({
  ...draft,
  conf,
  from_date: dayOrInstant(draft.from_date),
  to_date: dayOrInstant(draft.to_date),
  max_active_runs: Number(draft.max_active_runs),
});

/** @param {Draft} draft */
const createLine = (draft) =>
  commandLine(
    "backfill create",
    [draft.dag_id || "DAG"],
    "--from",
    draft.from_date || "DAY",
    "--to",
    draft.to_date || "DAY",
    ...(draft.rerun !== "missing" ? ["--rerun", draft.rerun] : []),
    ...(Number(draft.max_active_runs) !== 10 ? ["--max-active", Number(draft.max_active_runs)] : []),
    draft.backwards && "--backwards",
    ...(draft.conf.trim() ? ["--conf", draft.conf.trim()] : []),
  );

/**
 * The DAG id, with suggestions while typing; the field works without them.
 * @param {{ value: string, onText: (text: string) => void }} props
 */
function DagField({ value, onText }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  /** @param {string} search */
  const find = async (search) => {
    try {
      /** @type {Api["Page_DagResource_"]} */
      const found = await get("dags", { pattern: `*${search}*`, limit: 20 });
      setNames(found.items.map((d) => d.dag_id));
    } catch {
      setNames([]);
    }
  };
  /** @param {FieldEvent} event */
  const type = (event) => {
    onText(event.target.value);
    find(event.target.value);
  };
  return html`
    <div class="field">
      <label for="b-dag">DAG</label>
      <input class="input" id="b-dag" list="b-dags" required value=${value} onInput=${type} />
      <datalist id="b-dags">
        ${names.map((n) => html`
          <option value=${n} />
        `)}
      </datalist>
    </div>
  `;
}

/** @param {{ draft: Draft, set: (change: Partial<Draft>) => void, wrong?: string }} props */
function Fields({ draft, set, wrong }) {
  return html`
    <div class="columns close">
      <${InputField}
        id="b-from"
        label="From"
        help="a day of the DAG's time zone, or a time in UTC"
        required
        value=${draft.from_date}
        onText=${(text) => set({ from_date: text.trim() })}
      />
      <${InputField}
        id="b-to"
        label="To, inclusive"
        help="a whole day, or a time"
        required
        value=${draft.to_date}
        onText=${(text) => set({ to_date: text.trim() })}
      />
      <${SelectField}
        id="b-rerun"
        label="Which dates"
        value=${draft.rerun}
        options=${RERUN}
        onText=${(rerun) => set({ rerun })}
      />
      <${InputField}
        id="b-most"
        label="Max active runs"
        type="number"
        min="1"
        max="10000"
        value=${draft.max_active_runs}
        onText=${(text) => set({ max_active_runs: text })}
      />
    </div>
    <label class="row">
      <input
        type="checkbox"
        checked=${draft.backwards}
        onChange=${(e) => set({ backwards: e.target.checked })}
      />${" "}
      Newest date first
    </label>
    <details class="folded">
      <summary>Conf of the runs</summary>
      <div class="field">
        <textarea
          class="input"
          rows="3"
          aria-label="Conf, a JSON object"
          placeholder="{}"
          value=${draft.conf}
          onInput=${(e) => set({ conf: e.target.value })}
        />
        ${wrong && html`<span class="wrong">${wrong}</span>`}
      </div>
    </details>
  `;
}

/**
 * The wall clock of an instant with the offset of its zone.
 * @param {string} text
 */
const wall = (text) => text.slice(0, 19).replace("T", " ");

/** @param {Api["PlannedDate"]} planned */
const isRun = ({ fate }) => fate === "create" || fate === "rerun";

/**
 * What happens to each date, or that no scheduler can say it.
 * @typedef {(Api["BackfillAnswer"] & { accepted?: undefined }) | { accepted: true, dates?: undefined }} Planned
 * @param {{ plan: Planned }} props  the result of a dry run
 */
function Plan({ plan }) {
  if (plan.accepted)
    return html`<${Notice} kind="warn">No scheduler is responding, so there is no preview.<//>`;
  if (!plan.dates.length) return html`<${Notice}>The schedule has no dates in this period.<//>`;
  return html`
    ${plan.from && plan.to && html`
      <p class="soft">
        Logical dates from ${wall(plan.from)} to ${wall(plan.to)} in ${plan.timezone}.
        ${plan.left_out && html`
          ${" "}
          Left out from ${instant(plan.left_out.logical_date)} on: ${plan.left_out.reason}.
        `}
      </p>
    `}
    <div class="preview scroll" tabindex="0" aria-label="What happens to each date">
      <table class="table">
        <tbody>
          ${plan.dates.map((d) => html`
            <tr>
              <td class="tabular">${instant(d.logical_date)}</td>
              <td class=${isRun(d) ? "" : "faint"}>${FATES[d.fate] ?? d.fate}</td>
            </tr>
          `)}
        </tbody>
      </table>
    </div>
  `;
}
