// What a deferred task asks people: the button that opens the dialog in which it is answered.
import { html, useState } from "../../lib/html.js";
import { useList } from "../../lib/resources.js";
import { AnswerDialog } from "../../parts/actions/answer.js";

/** @param {{ task: Api["TaskDetails"], onDone: () => void }} props */
export function Question({ task, onDone }) {
  const [open, setOpen] = useState(false);
  const { dag_id, run_id, task_id, map_index } = task;
  /** @type {List<Api["InputResource"]>} */
  const asked = useList("inputs", { dag_id, run_id, task_id, map_index, waiting: true }, { kinds: ["task"] });
  const [input] = asked.items.value;
  if (!input) return null;
  return html`
    <button class="button primary" onClick=${() => setOpen(true)}>
      Answer …
    </button>
    ${open && html`<${AnswerDialog} input=${input} onClose=${() => setOpen(false)} onDone=${onDone} />`}
  `;
}
