// What tasks ask people: those that wait for an answer, and all others with their answers.
import { html, useState } from "../lib/html.js";
import { runName, taskName } from "../lib/names.js";
import { useList } from "../lib/resources.js";
import { path, query, setQuery } from "../lib/router.js";
import { AnswerDialog } from "../parts/actions/answer.js";
import { Card, Empty, Link, Page, Tabs, Tag, When } from "../parts/basics.js";
import { Allowed } from "../parts/facts.js";
import { Table } from "../parts/table.js";

export function Inputs() {
  const all = query.value.tab === "all";
  const [open, setOpen] = useState(/** @type {Api["InputResource"] | null} */ (null));
  const { dag_id, run_id, task_id, map_index, answer } = query.value;
  const wanted = { dag_id, run_id, task_id, map_index, waiting: all ? null : true };
  /** @type {List<Api["InputResource"]>} */
  const list = useList("inputs", wanted, { kinds: ["task", "run"], delay: 500 });
  const asked = answer === "1" ? list.items.value.find((one) => one.state === "waiting") : null;
  const close = () => (setOpen(null), setQuery({ answer: null }));
  const empty = html`
    <${Empty} title=${all ? "No questions yet" : "No open questions"}>
      Tasks of HITLOperator, ApprovalOperator and related operators ask here; they hold no slot while they wait.
    <//>
  `;
  return html`
    <${Page}
      title="Input"
      lead="Questions that tasks ask people; a task continues once its question is answered."
    >
      <${Tabs}
        tabs=${[
          ["waiting", "Waiting"],
          ["all", "All"],
        ]}
        keep=${["dag_id", "run_id", "task_id", "map_index"]}
      />
      <${Card} plain>
        <${Table} columns=${columns(setOpen)} list=${list} keyOf=${keyOf} empty=${empty} caption="Questions" />
      <//>
      ${(open ?? asked) && html`<${AnswerDialog} input=${open ?? asked} onClose=${close} onDone=${list.reload} />`}
    <//>
  `;
}

/** @param {Api["InputResource"]} input */
const keyOf = (input) => `${input.dag_id} ${input.run_id} ${input.task_id} ${input.map_index}`;

/**
 * @param {(input: Api["InputResource"]) => void} open
 * @returns {Column<Api["InputResource"]>[]}
 */
const columns = (open) => [
  { head: "Subject", cell: (input) => html`<b>${input.subject}</b>` },
  {
    head: "Task",
    cell: (input) => html`
      <${Link} to=${path("dags", input.dag_id, "runs", input.run_id, "tasks", input.task_id)}>
        ${input.dag_id} · ${taskName(input)}
      <//>
    `,
  },
  { head: "Run", cell: (input) => html`<span title=${input.run_id}>${runName(input.run_id)}</span>` },
  { head: "Asked", cell: (input) => html`<${When} at=${input.asked_at} ago />` },
  { head: "Until", cell: (input) => html`<${When} at=${input.expires_at} ago none="no limit" />` },
  { head: "Answer", cell: (input) => html`<${Answer} input=${input} open=${open} />` },
];

/** @param {{ input: Api["InputResource"], open: (input: Api["InputResource"]) => void }} props */
function Answer({ input, open }) {
  if (input.state === "ended") return html`<span class="faint">ended without an answer</span>`;
  if (input.state === "answered")
    return html`
      ${input.answer?.options.map((option) => html`
        <${Tag}>${option}<//>
      `)}
      <span class="faint">${input.answered_by ? `by ${input.answered_by}` : "nobody answered in time"}</span>
    `;
  return html`
    <${Allowed}>
      <button class="button" onClick=${() => open(input)}>
        Answer …
      </button>
    <//>
  `;
}
