// The audit log: who did what, from where. For administrators.
import { html } from "../lib/html.js";
import { may } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { Card, Empty, Link, Notice, Page, Tag, When } from "../parts/basics.js";
import { Choices, FilterField, Text, pretty } from "../parts/facts.js";
import { Table } from "../parts/table.js";

/** @type {Record<string, string>} */
const RESULTS = { done: "good", refused: "danger", failed: "danger" };

export function Audit() {
  if (!may("admin"))
    return html`
      <${Page} title="Audit">
        <${Notice}>The audit log is for administrators.<//>
      <//>
    `;
  return html`
    <${Page}
      title="Audit"
      lead="Who did what, from where; newest first."
      actions=${
        html`
          <${FilterField} name="kind" words="Kind, such as login." />
          <${FilterField} name="who" words="Who, such as api:ada" />
          <${FilterField} name="dag_id" words="DAG id" />
        `
      }
    >
      <${Choices} name="result" label="Result" options=${Object.keys(RESULTS).map((one) => [one, one])} />
      <${Entries} />
    <//>
  `;
}

function Entries() {
  const { kind, who, dag_id, result } = query.value;
  /** @type {List<Api["AuditEntryResource"]>} */
  const list = useList("audit", { kind, who, dag_id, result: RESULTS[result] ? result : null });
  const empty = html`
    <${Empty} title=${kind || who || dag_id || result ? "No matching entries" : "No entries yet"} />
  `;
  return html`
    <${Card} plain>
      <${Table}
        columns=${COLUMNS}
        list=${list}
        keyOf=${(entry) => entry.id}
        empty=${empty}
        caption="Audit log"
      />
    <//>
  `;
}

/** @type {Column<Api["AuditEntryResource"]>[]} */
const COLUMNS = [
  { head: "", cell: (entry) => html`<span class="faint tabular">${entry.id}</span>` },
  { head: "Time", cell: (entry) => html`<${When} at=${entry.at} />` },
  { head: "Who", cell: (entry) => entry.who },
  { head: "From", cell: (entry) => entry.address || html`<span class="faint">–</span>` },
  {
    head: "What",
    cell: (entry) => html`
      <code>${entry.kind}</code>
      ${entry.times > 1 ? ` × ${entry.times}` : ""}
    `,
  },
  { head: "About", cell: (entry) => entry.object },
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
