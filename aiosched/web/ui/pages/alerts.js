// Alerts: what is wrong now, what was lately, and the rules that say so.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { Card, Empty, Link, Page, Tabs, Tag, When } from "../parts/basics.js";
import { Choices } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { Rules } from "./alerts/rules.js";
import { kindWords } from "./alerts/words.js";

/** @typedef {Api["AlertResource"]} Alert */

export function Alerts() {
  return html`
    <${Page}
      title="Alerts"
      lead="What needs attention by your rules; each alert is sent once, and again when it recovers."
    >
      <${Tabs}
        tabs=${[
          ["alerts", "Alerts"],
          ["rules", "Rules"],
        ]}
      />
      ${query.value.tab === "rules" ? html`<${Rules} />` : html`<${Found} />`}
    <//>
  `;
}

function Found() {
  const { state, rule } = query.value;
  const only = state === "all" ? null : state !== "recovered";
  /** @type {List<Alert>} */
  const list = useList(
    "alerts",
    { is_open: only, rule: rule ?? null },
    { kinds: ["run", "dag", "pool"], delay: 1500 },
  );
  const empty = html`
    <${Empty} title=${only === true ? "No open alerts" : "No alerts"}>
      An alert opens when one of the rules is met, and closes when it has recovered.
    <//>
  `;
  return html`
    <div class="stack tight">
      <${Choices}
        name="state"
        label="State"
        options=${[
          ["recovered", "recovered"],
          ["all", "all"],
        ]}
      />
      <${Card} plain>
        <${Table}
          columns=${COLUMNS}
          list=${list}
          keyOf=${(a) => a.id}
          empty=${empty}
          caption="Alerts, newest first"
        />
      <//>
    </div>
  `;
}

/** @param {{ alert: Alert }} props */
function State({ alert }) {
  if (alert.recovered_at) return html`<${Tag} kind="good">✓ recovered<//>`;
  return html`<${Tag} kind="danger">✕ open<//>`;
}

/**
 * What has become of its messages.
 * @param {{ alert: Alert }} props
 */
function Delivery({ alert }) {
  if (alert.error)
    return html`
      <span class="wrong">
        Not delivered (${alert.failures}): ${alert.error}
      </span>
    `;
  if (alert.owes)
    return html`
      <span class="soft">
        waiting until <${When} at=${alert.deliver_at} none="the next evaluation" />
      </span>
    `;
  return html`<${When} at=${alert.told_at} ago none="not sent" />`;
}

/** @param {{ alert: Alert }} props */
function Subject({ alert }) {
  const [dag] = alert.dag_ids;
  if (!dag) return html`<span>${alert.subject}</span>`;
  const to = alert.run_id ? path("dags", dag, "runs", alert.run_id) : path("dags", dag);
  return html`<${Link} to=${to}>${alert.subject}<//>`;
}

/** @type {Column<Alert>[]} */
const COLUMNS = [
  { head: "State", cell: (a) => html`<${State} alert=${a} />` },
  { head: "Alert", cell: (a) => a.text },
  { head: "About", cell: (a) => html`<${Subject} alert=${a} />` },
  { head: "Rule", cell: (a) => html`<span title=${kindWords(a.kind)}>${a.rule}</span>` },
  { head: "Opened", cell: (a) => html`<${When} at=${a.opened_at} ago />` },
  { head: "Recovered", cell: (a) => html`<${When} at=${a.recovered_at} ago none="–" />` },
  { head: "Last sent", cell: (a) => html`<${Delivery} alert=${a} />` },
];
