// The audit log: who did what, from where. For administrators.
import { html } from "../lib/html.js";
import { may } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { Card, Empty, Link, Notice, Page, Tag, When } from "../parts/basics.js";
import { Text, pretty } from "../parts/facts.js";
import { FilterBar } from "../parts/lists/bar.js";
import { TIME, isFiltered, paramsOf } from "../parts/lists/fields.js";
import { Table } from "../parts/table.js";

/** @type {Record<string, string>} */
const RESULTS = { done: "good", refused: "danger", failed: "danger" };

/**
 * What entries are about, in words, and their kinds.
 * @type {Record<string, [words: string, kinds: string]>}
 */
const ABOUT = {
  login: ["logins and sessions", "login,login.,logout,link.,session."],
  variable: ["changes of variables", "request.set_variable,request.delete_variable"],
  connection: ["changes of connections", "request.set_connection,request.delete_connection,connection."],
  secret: ["secrets that were read", "secret."],
  pool: ["changes of pools", "request.set_pool,request.delete_pool"],
  person: ["users, tokens and rights", "user.,token.,grant.,team.,dag."],
  run: [
    "runs, tasks and backfills",
    "request.trigger,request.clear,request.mark_run,request.mark_tasks,request.cancel_run," +
      "request.backfill_create,request.backfill_pause,request.backfill_resume,request.backfill_cancel," +
      "request.answer_input,request.set_note,request.emit_asset",
  ],
  dag: [
    "DAGs and schedules",
    "request.pause,request.unpause,request.delete_dag,request.release_dag," +
      "request.schedule_set,request.schedule_pause,request.schedule_resume,request.schedule_remove",
  ],
  alert: ["alert rules", "alert_rule."],
  server: [
    "settings, keys and the log itself",
    "settings,audit.,database.,request.rotate_keys,request.rotate_signing_key",
  ],
  refused: ["what was refused for lack of rights", "refused"],
};

/** @type {import("../parts/lists/fields.js").Field[]} */
const FIELDS = [
  {
    name: "about",
    words: "About",
    one: true,
    options: Object.entries(ABOUT).map(([name, [words]]) => [name, words]),
  },
  { name: "object", words: "Name", one: true, free: true, hint: "Of what it is about" },
  { name: "who", words: "Who", one: true, free: true, hint: "Such as api:ada" },
  { name: "dag_id", words: "DAG", one: true, free: true },
  TIME,
  { name: "kind", words: "Kind", one: true, free: true, hint: "Such as login." },
  { name: "result", words: "Result", one: true, options: Object.keys(RESULTS).map((one) => [one, one]) },
];

export function Audit() {
  if (!may("admin"))
    return html`
      <${Page} title="Audit">
        <${Notice}>The audit log is for administrators.<//>
      <//>
    `;
  return html`
    <${Page} title="Audit" lead="Who did what, from where; newest first.">
      <${FilterBar} fields=${FIELDS} />
      <${Entries} />
    <//>
  `;
}

function Entries() {
  const { about, kind, ...params } = paramsOf(FIELDS);
  /** @type {List<Api["AuditEntryResource"]>} */
  const list = useList("audit", { ...params, kind: kind || ABOUT[String(about)]?.[1] });
  return html`
    <${Card} plain>
      <${Table}
        columns=${COLUMNS}
        list=${list}
        keyOf=${(entry) => entry.id}
        empty=${html`<${Empty} title=${isFiltered(FIELDS) ? "No matching entries" : "No entries yet"} />`}
        caption="Audit log"
      />
    <//>
  `;
}

/**
 * A cell that leads to all entries with the same.
 * @param {string} name
 * @param {string | null} value
 */
const narrowing = (name, value) =>
  value && html`<${Link} to=${`/audit?${new URLSearchParams({ [name]: value })}`}>${value}<//>`;

/** @type {Column<Api["AuditEntryResource"]>[]} */
const COLUMNS = [
  { head: "", cell: (entry) => html`<span class="faint tabular">${entry.id}</span>` },
  { head: "Time", cell: (entry) => html`<${When} at=${entry.at} />` },
  { head: "Who", cell: (entry) => narrowing("who", entry.who) },
  { head: "From", cell: (entry) => entry.address || html`<span class="faint">–</span>` },
  {
    head: "What",
    cell: (entry) => html`
      <code>${entry.kind}</code>
      ${entry.times > 1 ? ` × ${entry.times}` : ""}
    `,
  },
  { head: "About", cell: (entry) => narrowing("object", entry.object) },
  {
    head: "DAG",
    cell: (entry) => entry.dag_id && html`<${Link} to=${path("dags", entry.dag_id)}>${entry.dag_id}<//>`,
  },
  { head: "Result", cell: (entry) => html`<${Tag} kind=${RESULTS[entry.result]}>${entry.result}<//>` },
  {
    head: "",
    cell: ({ detail, session_id, token_id, command_id }) => html`
      <details class="folded inline">
        <summary>Details</summary>
        <${Text} text=${pretty({ ...detail, session_id, token_id, command_id })} />
      </details>
    `,
  },
];
