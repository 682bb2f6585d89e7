// Audit log: every request by a user or a program, and its outcome.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { Card, Empty, Link, Page, Tag, When } from "../parts/basics.js";
import { Choices, FilterField, Text, pretty } from "../parts/facts.js";
import { Table } from "../parts/table.js";

const KINDS = { waiting: "warn", applied: "good", refused: "danger" };

export function Audit() {
  const { dag_id, verb, state } = query.value;
  const list = useList(
    "commands",
    { dag_id, verb, state: KINDS[state] ? state : null },
    { kinds: ["command"] },
  );
  /** @type {Column<Api["Command"]>[]} */
  const columns = [
    { head: "", cell: (c) => html`<span class="faint tabular">${c.id}</span>` },
    { head: "Time", cell: (c) => html`<${When} at=${c.created_at} />` },
    { head: "Requested by", cell: (c) => c.requested_by },
    { head: "Request", cell: (c) => html`<code>${c.verb}</code>` },
    { head: "DAG", cell: (c) => c.dag_id && html`<${Link} to=${path("dags", c.dag_id)}>${c.dag_id}<//>` },
    { head: "Outcome", cell: (c) => html`<${Tag} kind=${KINDS[c.state]}>${c.state}<//>` },
    { head: "Reason", cell: (c) => c.reason || html`<span class="faint">–</span>` },
    {
      head: "",
      cell: (c) => html`
        <details class="folded inline">
          <summary>Details</summary>
          <${Text} text=${pretty({ args: c.args, result: c.result })} />
        </details>
      `,
    },
  ];
  const none = dag_id || verb || state ? "No matching requests" : "No requests yet";
  const empty = html`<${Empty} title=${none} />`;
  return html`
    <${Page}
      title="Audit"
      lead="Requests by users and programs, newest first."
      actions=${
        html`
          <${FilterField} name="dag_id" words="DAG id" />
          <${FilterField} name="verb" words="Verb, such as trigger" />
        `
      }
    >
      <${Choices} name="state" label="Outcome" options=${Object.keys(KINDS).map((one) => [one, one])} />
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(c) => c.id} empty=${empty} caption="Requests" />
      <//>
    <//>
  `;
}
