// Alerts: what is wrong now, what was lately, and the rules that say so.
import { html, useState } from "../lib/html.js";
import { at, may, post } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { Card, Empty, Link, Page, Tabs, Tag, When } from "../parts/basics.js";
import { Confirm } from "../parts/dialog.js";
import { Choices } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { Rules } from "./alerts/rules.js";
import { SilenceDialog, Silences } from "./alerts/silences.js";
import { SEVERITIES, kindWords } from "./alerts/words.js";

/** @typedef {Api["AlertResource"]} Alert */
/** @typedef {(open: [action: string, alert: Alert]) => void} Opener */

export function Alerts() {
  return html`
    <${Page}
      title="Alerts"
      lead="What needs attention by your rules; each alert is sent once, and again when it recovers."
    >
      <${Tabs}
        tabs=${[
          ["alerts", "Alerts"],
          ["silences", "Silences"],
          ["rules", "Rules"],
        ]}
      />
      ${query.value.tab === "rules" ? html`
        <${Rules} />
      ` : query.value.tab === "silences" ? html`
        <${Silences} />
      ` : html`
        <${Found} />
      `}
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
  const [open, setOpen] = useState(/** @type {[action: string, alert: Alert] | null} */ (null));
  const [act, alert] = open ?? [];
  const Dialog = act && DIALOGS[act];
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
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(a) => a.id}
          empty=${empty}
          caption="Alerts, newest first"
        />
      <//>
      ${Dialog && html`<${Dialog} alert=${alert} onClose=${() => setOpen(null)} onDone=${() => list.reload()} />`}
    </div>
  `;
}

/** @param {{ alert: Alert }} props */
function State({ alert }) {
  if (alert.recovered_at) return html`<${Tag} kind="good">✓ recovered<//>`;
  const [glyph, kind, words] = SEVERITIES[alert.severity] ?? SEVERITIES.warning;
  return html`
    <span class="stack tight">
      <${Tag} kind=${kind}>
        ${glyph} open · ${words}
      <//>
      ${alert.acknowledged_by && html`
        <span class="soft" title=${alert.acknowledged_by}>
          acknowledged by ${nameOf(alert.acknowledged_by)}
        </span>
      `}
    </span>
  `;
}

/** The name in `api:ada` or `cli:ada@host`. @param {string} who */
const nameOf = (who) => who.replace(/^(api|cli):/, "").replace(/@.*$/, "");

/**
 * What has become of its messages.
 * @param {{ alert: Alert }} props
 */
function Delivery({ alert }) {
  if (alert.silenced_until)
    return html`
      <span class="soft">
        silenced, ends <${When} at=${alert.silenced_until} ago />
      </span>
    `;
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

/** @param {{ alert: Alert, setOpen: Opener }} props */
function Actions({ alert, setOpen }) {
  if (alert.recovered_at || !may("operator")) return null;
  /** @param {string} action @param {string} words */
  const button = (action, words) => html`
    <button
      class="button small"
      aria-label=${`${words}: ${alert.text}`}
      onClick=${() => setOpen([action, alert])}
    >
      ${words} …
    </button>
  `;
  return html`
    <span class="row near">
      ${!alert.acknowledged_by && button("acknowledge", "Acknowledge")} ${button("silence", "Silence")}
    </span>
  `;
}

/** @param {DialogProps & { alert: Alert }} props */
function AcknowledgeDialog({ alert, onClose, onDone }) {
  return html`
    <${Confirm}
      title="Acknowledge this alert"
      submitLabel="I have it"
      act=${() => post(at("alerts", alert.id, "acknowledge"))}
      done="Others see that you have it."
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>${alert.text}</p>
      <p class="faint">There are no more reminders; its recovery is sent.</p>
    <//>
  `;
}

/** @type {Record<string, Function>} */
const DIALOGS = { acknowledge: AcknowledgeDialog, silence: SilenceDialog };

/**
 * @param {Opener} setOpen
 * @returns {Column<Alert>[]}
 */
const columnsOf = (setOpen) => [
  { head: "State", cell: (a) => html`<${State} alert=${a} />` },
  { head: "Alert", cell: (a) => a.text },
  { head: "About", cell: (a) => html`<${Subject} alert=${a} />` },
  { head: "Rule", cell: (a) => html`<span title=${kindWords(a.kind)}>${a.rule}</span>` },
  { head: "Opened", cell: (a) => html`<${When} at=${a.opened_at} ago />` },
  { head: "Recovered", cell: (a) => html`<${When} at=${a.recovered_at} ago none="–" />` },
  { head: "Last sent", cell: (a) => html`<${Delivery} alert=${a} />` },
  { head: "", cell: (a) => html`<${Actions} alert=${a} setOpen=${setOpen} />` },
];
