// Backfills: progress, pausing, cancelling, and creating one.
import { html, useState } from "../lib/html.js";
import { at, post } from "../lib/api.js";
import { useList, useResource } from "../lib/resources.js";
import { path, query, setQuery } from "../lib/router.js";
import { duration, secondsBetween } from "../lib/time.js";
import { Card, Empty, Link, Page, Tag, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed, Parts } from "../parts/facts.js";
import { FilterBar } from "../parts/lists/bar.js";
import { Table } from "../parts/table.js";
import { BackfillDialog } from "./backfills/create.js";

/** @typedef {"pause" | "resume" | "cancel"} Verb */
/** @typedef {Api["BackfillResource"]} Backfill */

/** @type {Record<string, string>} */
const KINDS = { running: "good", paused: "warn", cancelled: "danger" };

/** @type {Record<Verb, [label: string, effect: string, done: string]>} */
const VERBS = {
  pause: ["Pause", "Running runs continue; no further runs are started.", "Backfill paused."],
  resume: ["Resume", "Further runs are started, up to the backfill's limit.", "Backfill resumed."],
  cancel: ["Cancel", "Queued runs fail, running ones continue. This cannot be undone.", "Backfill cancelled."],
};

const FIELDS = [{ name: "dag_id", words: "DAG", one: true, free: true }];

export function Backfills() {
  const { dag_id, make } = query.value;
  /** @type {List<Api["BackfillResource"]>} */
  const list = useList("backfills", { dag_id }, { kinds: ["run", "command", "dag"], limit: 50 });
  const [failed, setFailed] = useState(/** @type {Backfill | null} */ (null)); // whose failed dates run again
  const [action, setAction] = useState(/** @type {[Api["BackfillResource"], Verb] | null} */ (null));
  const actions = html`
    <${Allowed}>
      <button class="button primary" onClick=${() => setQuery({ make: 1 })}>
        New backfill …
      </button>
    <//>
  `;
  const empty = html`
    <${Empty} title="No backfills" command="aiosched backfill create DAG --from 2026-01-01 --to 2026-01-31">
      A backfill creates runs for past dates, with its own concurrency limit.
    <//>
  `;
  return html`
    <${Page} title="Backfills" actions=${actions}>
      <${FilterBar} fields=${FIELDS} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setAction, setFailed)}
          list=${list}
          keyOf=${(b) => b.id}
          empty=${empty}
          caption="Backfills"
        />
      <//>
      ${make && html`
        <${BackfillDialog} dagId=${dag_id} onClose=${() => setQuery({ make: null })} onDone=${list.reload} />
      `}
      ${failed && html`
        <${BackfillDialog}
          dagId=${failed.dag_id}
          initial=${{ rerun: "failed", from_date: failed.from_date, to_date: failed.to_date }}
          onClose=${() => setFailed(null)}
          onDone=${list.reload}
        />
      `}
      ${action && html`
        <${Change}
          backfill=${action[0]}
          verb=${action[1]}
          onClose=${() => setAction(null)}
          onDone=${list.reload}
        />
      `}
    <//>
  `;
}

/**
 * @param {(action: [Backfill, Verb]) => void} setAction
 * @param {(failed: Backfill) => void} setFailed
 * @returns {Column<Api["BackfillResource"]>[]}
 */
const columnsOf = (setAction, setFailed) => [
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
  { head: "State", cell: (b) => html`<${BackfillState} of=${b} />` },
  { head: "Progress", cell: (b) => html`<${Progress} of=${b} />` },
  {
    head: "Max active runs",
    right: true,
    cell: (b) => html`
      ${b.max_active_runs}
      ${b.backwards && html`
        ${" "}
        <span class="faint" title="newest date first">
          backwards
        </span>
      `}
    `,
  },
  { head: "Created", cell: (b) => html`<${When} at=${b.created_at} ago />` },
  { head: "", cell: (b) => html`<${Actions} of=${b} setAction=${setAction} setFailed=${setFailed} />` },
];

/** @param {{ of: Api["BackfillResource"] }} props */
function BackfillState({ of: b }) {
  return html`
    <${Tag} kind=${KINDS[b.state]}>${b.state}<//>
    ${b.state === "running" && !b.running && html`
      ${" "}
      <${Held} dagId=${b.dag_id} />
    `}
  `;
}

/**
 * @param {{ of: Backfill, setAction: (action: [Backfill, Verb]) => void, setFailed: (failed: Backfill) => void }} props
 */
function Actions({ of: b, setAction, setFailed }) {
  const { state } = b;
  return html`
    <${Allowed} quiet>
      <span class="row near">
        ${b.completed_at && b.failed > 0 && html`
          <button class="button small" onClick=${() => setFailed(b)}>
            Rerun failed (${b.failed})
          </button>
        `}
        ${state === "running" && html`
          <button class="button small" onClick=${() => setAction([b, "pause"])}>
            Pause
          </button>
        `}
        ${state === "paused" && html`
          <button class="button small" onClick=${() => setAction([b, "resume"])}>
            Resume
          </button>
        `}
        ${(state === "running" || state === "paused") && html`
          <button class="button small danger" onClick=${() => setAction([b, "cancel"])}>
            Cancel
          </button>
        `}
      </span>
    <//>
  `;
}

/**
 * Why no run of a backfill is running, if the DAG is paused.
 * @param {{ dagId: string }} props
 */
function Held({ dagId }) {
  /** @type {Resource<Api["DagDetails"]>} */
  const dag = useResource(at("dags", dagId), {}, { kinds: ["dag", "command"] });
  return dag.data.value?.is_paused ? html`
    <${Link} class="late" to=${path("dags", dagId)} title="Its runs wait until the DAG is unpaused">
      the DAG is paused
    <//>
  ` : null;
}

/**
 * How long a running backfill still takes at the pace so far; null if that is not known.
 * @param {Backfill} b
 */
function secondsLeft(b) {
  if (b.state !== "running" || !b.finished || b.finished >= b.total) return null;
  return ((secondsBetween(b.created_at) ?? 0) / b.finished) * (b.total - b.finished);
}

/** @param {{ of: Api["BackfillResource"] }} props */
function Progress({ of: b }) {
  const all = Math.max(b.total, 1);
  const left = secondsLeft(b);
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
        ${b.failed > 0 && html`
          ,${" "}
          <${Link} class="late" to=${`${path("dags", b.dag_id)}?tab=runs&state=failed&run_type=backfill`}>
            ${b.failed} failed
          <//>
        `}
        ${left !== null && html`
          <span class="faint" title="at the pace so far">
            ${" "}
            about ${duration(left)} left
          </span>
        `}
      </span>
    </span>
  `;
}

/** @param {DialogProps & { backfill: Api["BackfillResource"], verb: Verb }} props */
function Change({ backfill, verb, onClose, onDone }) {
  const [words, effect, done] = VERBS[verb];
  const left = backfill.total - backfill.finished;
  return html`
    <${Confirm}
      title=${`${words} backfill ${backfill.id} of ${backfill.dag_id}`}
      submitLabel=${words}
      danger=${verb === "cancel"}
      act=${() => post(`backfills/${backfill.id}/${verb}`)}
      done=${done}
      cli=${commandLine(`backfill ${verb}`, [backfill.id])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>${effect}</p>
      <p class="soft">
        ${left} of ${backfill.total} runs unfinished, ${backfill.running} running.
      </p>
    <//>
  `;
}
