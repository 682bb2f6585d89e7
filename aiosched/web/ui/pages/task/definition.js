// What a task is: its definition, its templates, and what they become.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { path } from "../../lib/router.js";
import { Card, Empty, Facts, Link, Shown } from "../../parts/basics.js";
import { Text, pretty } from "../../parts/facts.js";

/** Rendering starts a process that reads the DAG's file: done when asked for, not with every change. */
export function Rendered({ base, params }) {
  const found = useResource(may("operator") ? `${base}/rendered` : null, params);
  if (!may("operator"))
    return html`
      <${Card}>
        <${Empty} title="Only for operators">
          Rendering runs code of the DAG, so it needs the role operator; the templates themselves stand under
          Details.
        <//>
      <//>
    `;
  return html`
    <${Card}
      title="Rendered fields"
      actions=${
        html`<button class="button small" onClick=${() => found.reload()}>
          Render again
        </button>`
      }
    >
      <${Shown} of=${found}>
        ${({ fields }) =>
          Object.keys(fields).length ? html`
            <div class="stack">
              ${Object.entries(fields).map(([name, value]) => html`
                <div class="stack tight" key=${name}>
                  <b class="mono">${name}</b>
                  <${Text} text=${typeof value === "string" ? value : pretty(value)} />
                </div>
              `)}
            </div>
          ` : html`
            <${Empty} title="It has no fields with templates" />
          `
        }
      <//>
    <//>
  `;
}

/** @param {Props<{ task: Api["TaskDetails"] }>} props */
export function Definition({ task }) {
  const d = task.definition;
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
            ["Operator", d.operator],
            ["Owner", d.owner],
            ["Group", d.group_id],
            ["Before it", links(d.upstream)],
            ["After it", links(d.downstream)],
            ["Trigger rule", html`<code>${d.trigger_rule}</code>`],
            ["Retries", d.retries],
            ["Pool", `${d.pool}, ${d.pool_slots} of its slots`],
            ["Priority", d.priority_weight],
            ["Executor", d.executor],
            [
              "Also",
              [
                d.is_setup && "setup",
                d.is_teardown && "teardown",
                d.depends_on_past && "depends on its run before",
                d.is_mapped && "mapped",
              ]
                .filter(Boolean)
                .join(", "),
            ],
          ]}
        />
        ${d.doc && html`<p class="doc">${d.doc}</p>`}
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
          <p class="soft">It has no fields with templates.</p>
        `}
      <//>
    </div>
  `;
}
