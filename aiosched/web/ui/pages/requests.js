// Requests by users and programs, and their outcome; those that wait can be withdrawn.
import { html, useState } from "../lib/html.js";
import { post } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { Card, Empty, Link, Page, Tag, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed, Text, pretty } from "../parts/facts.js";
import { FilterBar } from "../parts/lists/bar.js";
import { isFiltered, paramsOf } from "../parts/lists/fields.js";
import { Table } from "../parts/table.js";

/** @type {Record<string, string>} */
const KINDS = { waiting: "warn", applied: "good", refused: "danger" };

/** @type {import("../parts/lists/fields.js").Field[]} */
const FIELDS = [
  { name: "dag_id", words: "DAG", one: true, free: true },
  { name: "verb", words: "Request", one: true, free: true, hint: "Such as trigger" },
  { name: "state", words: "Outcome", one: true, options: Object.keys(KINDS).map((one) => [one, one]) },
];

export function Requests() {
  /** @type {List<Api["CommandResource"]>} */
  const list = useList("commands", paramsOf(FIELDS), { kinds: ["command"] });
  const [withdrawn, setWithdrawn] = useState(/** @type {Api["CommandResource"] | null} */ (null));
  const none = isFiltered(FIELDS) ? "No matching requests" : "No requests yet";
  const empty = html`<${Empty} title=${none} />`;
  return html`
    <${Page} title="Requests" lead="Requests by users and programs, newest first.">
      <${FilterBar} fields=${FIELDS} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setWithdrawn)}
          list=${list}
          keyOf=${(c) => c.id}
          empty=${empty}
          caption="Requests"
        />
      <//>
      ${withdrawn && html`
        <${Withdraw} request=${withdrawn} onClose=${() => setWithdrawn(null)} onDone=${list.reload} />
      `}
    <//>
  `;
}

/**
 * @param {(request: Api["CommandResource"]) => void} withdraw
 * @returns {Column<Api["CommandResource"]>[]}
 */
const columnsOf = (withdraw) => [
  { head: "", cell: (c) => html`<span class="faint tabular">${c.id}</span>` },
  { head: "Time", cell: (c) => html`<${When} at=${c.created_at} ago />` },
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
  {
    head: "",
    cell: (c) =>
      c.state === "waiting" && html`
        <${Allowed}>
          <button class="button small" onClick=${() => withdraw(c)}>
            Withdraw …
          </button>
        <//>
      `,
  },
];

/** @param {DialogProps & { request: Api["CommandResource"] }} props */
function Withdraw({ request, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Withdraw request ${request.id}`}
      submitLabel="Withdraw"
      danger
      act=${() => post(`commands/${request.id}/withdraw`)}
      done="Request withdrawn."
      cli=${commandLine("requests withdraw", [request.id])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        No scheduler has applied <code>${request.verb}</code> ${request.dag_id ? html`to ${request.dag_id}` : ""}${" "}
        yet. It is then refused in your name.
      </p>
    <//>
  `;
}
