// Make a backfill, after a look at what becomes of each date.
import { html, useState } from "../../lib/html.js";
import { get, post } from "../../lib/api.js";
import { instant } from "../../lib/time.js";
import { Notice } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { objectOf } from "../../parts/facts.js";

const RERUN = [
  ["missing", "only dates without a run"],
  ["failed", "also dates whose run failed"],
  ["all", "every date"],
];

const FATES = {
  create: "a run is made",
  rerun: "its run runs again",
  "in flight": "its run is not finished: it is left alone",
  "already exists": "has a run: it is left alone",
};

const day = (back) => new Date(Date.now() - back * 86400e3).toISOString().slice(0, 10);

/** A date or an instant as people write it, in UTC unless it says otherwise. */
const utc = (text) =>
  /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : /([zZ]|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`;

export function BackfillDialog({ dagId, onClose, onDone }) {
  const [draft, setDraft] = useState({
    dag_id: dagId ?? "",
    from_date: day(7),
    to_date: day(1),
    rerun: "missing",
    max_active_runs: 10,
    backwards: false,
    conf: "",
  });
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [names, setNames] = useState([]);
  const set = (change) => {
    setDraft({ ...draft, ...change });
    setPlan(null);
  };
  const { value: conf, wrong } = objectOf(draft.conf);
  const wish = {
    ...draft,
    conf,
    from_date: utc(draft.from_date),
    to_date: utc(draft.to_date),
    max_active_runs: Number(draft.max_active_runs),
  };
  const find = async (search) => {
    try {
      setNames((await get("dags", { pattern: `*${search}*`, limit: 20 })).items.map((d) => d.dag_id));
    } catch {
      setNames([]);
    }
  }; // suggestions only: typing goes on without them
  const look = async () => {
    setError(null);
    try {
      setPlan(await post("backfills", { ...wish, dry_run: true }));
    } catch (problem) {
      setError(problem);
    }
  };
  const made = plan?.dates?.filter((d) => d.fate === "create" || d.fate === "rerun").length ?? 0;
  const cli = commandLine(
    "backfill",
    "create",
    draft.dag_id || "DAG",
    "--from",
    draft.from_date,
    "--to",
    draft.to_date,
    ...(draft.rerun !== "missing" ? ["--rerun", draft.rerun] : []),
    ...(wish.max_active_runs !== 10 ? ["--max-active", wish.max_active_runs] : []),
    draft.backwards && "--backwards",
    ...(draft.conf.trim() ? ["--conf", draft.conf.trim()] : []),
  );
  return html`
    <${Confirm}
      title="New backfill"
      words=${plan ? `Run ${made} ${made === 1 ? "date" : "dates"}` : "Run"}
      act=${() => post("backfills", wish)}
      done="The backfill is made."
      disabled=${!plan || !made}
      cli=${cli}
      onClose=${onClose}
      onDone=${onDone}
    >
      <div class="field">
        <label for="b-dag">DAG</label>
        <input
          class="input"
          id="b-dag"
          list="b-dags"
          required
          value=${draft.dag_id}
          onInput=${(e) => {
            set({ dag_id: e.target.value });
            find(e.target.value);
          }}
        />
        <datalist id="b-dags">
          ${names.map((n) => html`
            <option value=${n} />
          `)}
        </datalist>
      </div>
      <div class="columns close">
        <div class="field">
          <label for="b-from">From (UTC)</label>
          <input
            class="input"
            id="b-from"
            required
            value=${draft.from_date}
            onInput=${(e) => set({ from_date: e.target.value.trim() })}
          />
        </div>
        <div class="field">
          <label for="b-to">To, inclusive (UTC)</label>
          <input
            class="input"
            id="b-to"
            required
            value=${draft.to_date}
            onInput=${(e) => set({ to_date: e.target.value.trim() })}
          />
        </div>
        <div class="field">
          <label for="b-rerun">Which dates</label>
          <select
            class="input"
            id="b-rerun"
            value=${draft.rerun}
            onChange=${(e) => set({ rerun: e.target.value })}
          >
            ${RERUN.map(([value, words]) => html`
              <option value=${value}>${words}</option>
            `)}
          </select>
        </div>
        <div class="field">
          <label for="b-most">Runs at a time</label>
          <input
            class="input"
            id="b-most"
            type="number"
            min="1"
            max="10000"
            value=${draft.max_active_runs}
            onInput=${(e) => set({ max_active_runs: e.target.value })}
          />
        </div>
      </div>
      <label class="row">
        <input
          type="checkbox"
          checked=${draft.backwards}
          onChange=${(e) => set({ backwards: e.target.checked })}
        />${" "}
        From the newest date to the oldest
      </label>
      <details class="folded">
        <summary>Values for the runs</summary>
        <div class="field">
          <textarea
            class="input"
            rows="3"
            aria-label="Values (conf), a JSON object"
            placeholder="{}"
            value=${draft.conf}
            onInput=${(e) => set({ conf: e.target.value })}
          />
          ${wrong && html`<span class="wrong">${wrong}</span>`}
        </div>
      </details>
      <div class="row">
        <button type="button" class="button" disabled=${!draft.dag_id || Boolean(wrong)} onClick=${look}>
          Show what it would do
        </button>
        ${!plan && html`<span class="faint">look first, then run</span>`}
      </div>
      ${error && html`<${Notice} kind="danger">${error.message}<//>`}
      ${plan &&
        (plan.accepted ? html`
          <${Notice} kind="warn">No scheduler answers now, so there is no preview.<//>
        ` : plan.dates.length ? html`
          <div class="preview scroll" tabindex="0" aria-label="What becomes of each date">
            <table class="table">
              <tbody>
                ${plan.dates.map((d) => html`
                  <tr>
                    <td class="tabular">${instant(d.logical_date)}</td>
                    <td class=${d.fate === "create" || d.fate === "rerun" ? "" : "faint"}>
                      ${FATES[d.fate] ?? d.fate}
                    </td>
                  </tr>
                `)}
              </tbody>
            </table>
          </div>
        ` : html`
          <${Notice}>The schedule has no date in this time.<//>
        `)}
    <//>
  `;
}
