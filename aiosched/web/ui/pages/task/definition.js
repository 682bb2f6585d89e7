// The definition of a task, and its templates.
import { html } from "../../lib/html.js";
import { operatorWords } from "../../lib/names.js";
import { path } from "../../lib/router.js";
import { Card, Facts, Link } from "../../parts/basics.js";
import { Markdown } from "../../parts/markdown.js";
import { Text, pretty } from "../../parts/facts.js";

/** @param {{ task: Api["TaskDetails"] }} props */
export function Definition({ task }) {
  const d = task.definition;
  /** @param {string[]} ids */
  const links = (ids) =>
    ids.length ? html`
      <span class="row">
        ${ids.map((id) => html`
          <${Link} to=${path("dags", task.dag_id, "runs", task.run_id, "tasks", id)}>${id}<//>
        `)}
      </span>
    ` : html`
      <span class="faint">none</span>
    `;
  return html`
    <div class="columns">
      <${Card} title="Definition">
        <${Facts}
          rows=${[
            ["Operator", operatorWords(d.operator)],
            ["Owner", d.owner],
            ["Group", d.group_id],
            ["Upstream", links(d.upstream)],
            ["Downstream", links(d.downstream)],
            ["Trigger rule", html`<code>${d.trigger_rule}</code>`],
            ["Retries", d.retries],
            ["Pool", `${d.pool}, ${d.pool_slots} ${d.pool_slots === 1 ? "slot" : "slots"}`],
            ["Priority", d.priority_weight],
            ["Executor", d.executor],
            [
              "Flags",
              [
                d.is_setup && "setup",
                d.is_teardown && "teardown",
                d.depends_on_past && "depends on past",
                d.is_mapped && "mapped",
              ]
                .filter(Boolean)
                .join(", "),
            ],
          ]}
        />
        ${d.doc && html`<${Markdown} text=${d.doc} />`}
      <//>
      <${Card} title="Templates">
        ${Object.keys(task.template_fields).length ? html`
          <div class="stack">
            ${Object.entries(task.template_fields).map(([name, value]) => html`
              <div class="stack tight">
                <b class="mono">${name}</b>
                <${Text} text=${typeof value === "string" ? value : pretty(value)} />
              </div>
            `)}
          </div>
        ` : html`
          <p class="soft">No templated fields.</p>
        `}
      <//>
    </div>
  `;
}
