// Audit: every request of a person or a program, and what became of it.
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
    { head: "At", cell: (c) => html`<${When} at=${c.created_at} />` },
    { head: "Who", cell: (c) => c.requested_by },
    { head: "What", cell: (c) => html`<code>${c.verb}</code>` },
    { head: "DAG", cell: (c) => c.dag_id && html`<${Link} to=${path("dags", c.dag_id)}>${c.dag_id}<//>` },
    { head: "Became", cell: (c) => html`<${Tag} kind=${KINDS[c.state]}>${c.state}<//>` },
    { head: "Why", cell: (c) => c.reason || html`<span class="faint">–</span>` },
    {
      head: "",
      cell: (c) => html`
        <details class="folded inline">
          <summary>with</summary>
          <${Text} text=${pretty({ args: c.args, result: c.result })} />
        </details>
      `,
    },
  ];
  const none = dag_id || verb || state ? "No request is like this" : "Nobody has asked for anything yet";
  const empty = html`<${Empty} title=${none} />`;
  return html`
    <${Page}
      title="Audit"
      lead="What people and programs asked for, newest first."
      actions=${
        html`
          <${FilterField} name="dag_id" words="DAG id" />
          <${FilterField} name="verb" words="Verb, such as trigger" />
        `
      }
    >
      <${Choices}
        name="state"
        label="What became of it"
        options=${Object.keys(KINDS).map((one) => [one, one])}
      />
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(c) => c.id} empty=${empty} caption="Requests" />
      <//>
    <//>
  `;
}
