// Backfills: how far they are, pausing and cancelling, and making one after a look at what becomes of each date.
import { html, useState } from "../lib/html.js";
import { at, get, post, useList, useResource } from "../lib/api.js";
import { path, query, setQuery } from "../lib/router.js";
import { instant } from "../lib/time.js";
import { Card, Empty, Link, Notice, Page, Tag, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed, FilterField, Parts, objectOf } from "../parts/facts.js";
import { Table } from "../parts/table.js";

const KINDS = { running: "good", paused: "warn", cancelled: "danger" };
const VERBS = {
  pause: ["Pause", "Runs that run go on; no further run of it starts.", "It is paused."],
  resume: ["Resume", "Its runs start again, under its own limit.", "It goes on."],
  cancel: [
    "Cancel",
    "Runs that are queued fail, those that run go on. This cannot be undone.",
    "It is cancelled.",
  ],
};

export function Backfills() {
  const { dag_id, make } = query.value;
  const list = useList("backfills", { dag_id }, { kinds: ["run", "command", "dag"], limit: 50 });
  const [asked, setAsked] = useState(null);
  const columns = [
    { head: "", cell: (b) => html`<span class="faint tabular">${b.id}</span>` },
    { head: "DAG", cell: (b) => html`<${Link} to=${path("dags", b.dag_id)}>${b.dag_id}<//>` },
    {
      head: "Dates",
      cell: (b) => html`
        <span class="nowrap">
          <${When} at=${b.from_date} /> – <${When} at=${b.to_date} />
        </span>
      `,
    },
    {
      head: "State",
      cell: (b) => html`
          <${Tag} kind=${KINDS[b.state]}>${b.state}<//>
          ${b.state === "running" && !b.running && html`
              ${" "}
              <${Held} dagId=${b.dag_id} />
          `}
      `,
    },
    { head: "Progress", cell: (b) => html`<${Progress} of=${b} />` },
    {
      head: "At a time",
      right: true,
      cell: (b) => html`
          ${b.max_active_runs}
          ${b.backwards ? html`
              ${" "}
              <span class="faint" title="from the newest date to the oldest">
                backwards
              </span>
          ` : (
            ""
          )}
      `,
    },
    { head: "Made", cell: (b) => html`<${When} at=${b.created_at} ago />` },
    {
      head: "",
      cell: (b) => html`
        <${Allowed} quiet>
          <span class="row near">
            ${b.state === "running" && html`
              <button class="button small" onClick=${() => setAsked([b, "pause"])}>
                Pause
              </button>
            `}
            ${b.state === "paused" && html`
              <button class="button small" onClick=${() => setAsked([b, "resume"])}>
                Resume
              </button>
            `}
            ${(b.state === "running" || b.state === "paused") && html`
              <button class="button small danger" onClick=${() => setAsked([b, "cancel"])}>
                Cancel
              </button>
            `}
          </span>
        <//>
      `,
    },
  ];
  const empty = html`
    <${Empty} title="No backfill" command="aiosched backfill create DAG --from 2026-01-01 --to 2026-01-31">
      A backfill makes the runs of past dates, under a limit of its own.
    <//>
  `;
  return html`
    <${Page}
      title="Backfills"
      actions=${
        html`
          <${FilterField} name="dag_id" words="DAG id" />
          <${Allowed}>
            <button class="button primary" onClick=${() => setQuery({ make: 1 })}>
              New backfill …
            </button>
          <//>
        `
      }
    >
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(b) => b.id} empty=${empty} caption="Backfills" />
      <//>
      ${make && html`
        <${BackfillDialog} dagId=${dag_id} onClose=${() => setQuery({ make: null })} onDone=${list.reload} />
      `}
      ${asked && html`
        <${Change} backfill=${asked[0]} verb=${asked[1]} onClose=${() => setAsked(null)} onDone=${list.reload} />
      `}
    <//>
  `;
}

/** Why nothing of a backfill runs, where that is simple. */
function Held({ dagId }) {
  const dag = useResource(at("dags", dagId), {}, { kinds: ["dag", "command"] });
  return dag.data.value?.is_paused ? html`
    <${Link} class="late" to=${path("dags", dagId)} title="Its runs wait until the DAG is unpaused">
      the DAG is paused
    <//>
  ` : null;
}

function Progress({ of: b }) {
  const all = Math.max(b.total, 1);
  const good = b.finished - b.failed;
  const parts = [
    { share: good / all, name: "state-success", words: `${good} succeeded` },
    { share: b.failed / all, name: "state-failed", words: `${b.failed} failed` },
    { share: b.running / all, name: "state-running", words: `${b.running} running` },
  ];
  return html`
    <span class="row near">
      <${Parts} label=${parts.map((p) => p.words).join(", ")} parts=${parts} />
      <span class="tabular nowrap">
        ${b.finished} of ${b.total}
        ${b.failed ? html`<span class="late">, ${b.failed} failed</span>` : ""}
      </span>
    </span>
  `;
}

function Change({ backfill, verb, onClose, onDone }) {
  const [words, told, done] = VERBS[verb];
  const left = backfill.total - backfill.finished;
  return html`
    <${Confirm}
      title=${`${words} backfill ${backfill.id} of ${backfill.dag_id}`}
      words=${words}
      danger=${verb === "cancel"}
      act=${() => post(`backfills/${backfill.id}/${verb}`)}
      done=${done}
      cli=${commandLine("backfill", verb, backfill.id)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>${told}</p>
      <p class="soft">
        ${left} of its ${backfill.total} runs are not finished, ${backfill.running} run now.
      </p>
    <//>
  `;
}

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

function BackfillDialog({ dagId, onClose, onDone }) {
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
