// The audit log: who did what, from where. For administrators.
import { html } from "../lib/html.js";
import { may } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path, query, setQuery } from "../lib/router.js";
import { Card, Empty, Link, Notice, Page, Tag, When } from "../parts/basics.js";
import { Choices, FilterField, Text, pretty } from "../parts/facts.js";
import { Filter } from "../parts/form.js";
import { TimeFilter, periodOf } from "../parts/lists/filters.js";
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

export function Audit() {
  if (!may("admin"))
    return html`
      <${Page} title="Audit">
        <${Notice}>The audit log is for administrators.<//>
      <//>
    `;
  return html`
    <${Page} title="Audit" lead="Who did what, from where; newest first.">
      <div class="row">
        <${Filter}
          label="About"
          value=${query.value.about}
          any="about anything"
          options=${Object.entries(ABOUT).map(([name, [words]]) => [name, words])}
          onText=${(/** @type {string} */ text) => setQuery({ about: text })}
        />
        <${FilterField} name="object" words="Name of what it is about" />
        <${FilterField} name="who" words="Who, such as api:ada" />
        <${FilterField} name="dag_id" words="DAG id" />
        <${TimeFilter} />
        <${FilterField} name="kind" words="Kind, such as login." />
      </div>
      <${Choices} name="result" label="Result" options=${Object.keys(RESULTS).map((one) => [one, one])} />
      <${Entries} />
    <//>
  `;
}

function Entries() {
  const { kind, about, object, who, dag_id, result } = query.value;
  const [since, until] = periodOf();
  const params = {
    kind: kind || ABOUT[about]?.[1],
    object,
    who,
    dag_id,
    since,
    until,
    result: RESULTS[result] ? result : null,
  };
  /** @type {List<Api["AuditEntryResource"]>} */
  const list = useList("audit", params);
  const isFiltered = Object.values(params).some(Boolean);
  return html`
    <${Card} plain>
      <${Table}
        columns=${COLUMNS}
        list=${list}
        keyOf=${(entry) => entry.id}
        empty=${html`<${Empty} title=${isFiltered ? "No matching entries" : "No entries yet"} />`}
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
