// One asset: its properties, its events, and emitting one.
import { html, useState } from "../../lib/html.js";
import { post } from "../../lib/api.js";
import { readable } from "../../lib/json.js";
import { runName, taskName, taskPath } from "../../lib/names.js";
import { useList, useResource } from "../../lib/resources.js";
import { path } from "../../lib/router.js";
import { duration } from "../../lib/time.js";
import { Card, Empty, Facts, Link, Page, Shown, When } from "../../parts/basics.js";
import { TriggerDialog } from "../../parts/actions/trigger.js";
import { Freshness } from "../../parts/dependencies/words.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Allowed, objectOf } from "../../parts/facts.js";
import { Value } from "../../parts/json.js";
import { Table } from "../../parts/table.js";
import { Checks } from "./checks.js";
import { LineageCard } from "./lineage.js";
import { Group, KINDS, dags } from "./links.js";
import { Partitions } from "./partitions.js";

/** @param {{ asset: string }} props */
export function AssetPage({ asset }) {
  /** @type {Resource<Api["AssetResource"]>} */
  const found = useResource("asset", { name: asset }, KINDS);
  /** @type {List<Api["AssetEventResource"]>} */
  const events = useList("asset-events", { name: asset }, KINDS);
  const [open, setOpen] = useState(false);
  const [made, setMade] = useState(/** @type {string | null} */ (null)); // the DAG that is to make it anew
  const reload = () => {
    found.reload();
    events.reload();
  };
  return html`
    <${Page}
      title=${asset}
      crumbs=${[["Assets", "/assets"]]}
      actions=${
        found.data.value && html`
          <${Allowed}>
            ${found.data.value.producers.slice(0, 3).map((/** @type {string} */ dag) => html`
              <button key=${dag} class="button primary" onClick=${() => setMade(dag)}>
                Run ${dag} …
              </button>
            `)}
            <button class="button" onClick=${() => setOpen(true)}>
              Emit an event …
            </button>
          <//>
        `
      }
    >
      <${Shown} of=${found}>
        ${(a) => html`
          <div class="stack">
            <${Card} title="Asset">
              <${Facts}
                rows=${[
                  ["Description", a.description],
                  ["Group", a.group === "asset" ? null : html`<${Group} of=${a} />`],
                  ["Owners", a.owners.join(", ")],
                  ["URI", html`<code>${a.uri}</code>`],
                  ["Produced by", dags(a.producers)],
                  ["Consumed by", dags(a.consumers)],
                  ["Freshness", html`<${Freshness} asset=${a} />`],
                  ["Fresh for", a.fresh_within && `${duration(a.fresh_within)} after each event`],
                  ["Last event", html`<${When} at=${a.last_event_at} none="never" />`],
                  ["Last producer", lastProducer(a)],
                  ["Extra", Object.keys(a.extra).length === 0 ? null : extraOf(a.extra)],
                ]}
              />
            <//>
            <${LastEvent} event=${events.items.value[0]} before=${events.items.value[1]} />
            <${Checks} asset=${asset} />
            <${Partitions} asset=${a} />
            <${Events} list=${events} />
            <${LineageCard} around=${asset} />
            ${made && html`<${TriggerDialog} dagId=${made} onClose=${() => setMade(null)} onDone=${reload} />`}
            ${open && html`<${Emit} asset=${a} onClose=${() => setOpen(false)} onDone=${reload} />`}
          </div>
        `}
      <//>
    <//>
  `;
}

/** @param {Api["AssetResource"]} asset */
function lastProducer({ last_dag_id: dag, last_run_id: run, last_task_id: task }) {
  if (!dag) return null;
  const to = !run
    ? path("dags", dag)
    : task
      ? path("dags", dag, "runs", run, "tasks", task)
      : path("dags", dag, "runs", run);
  return html`<${Link} to=${to}>${[dag, run, task].filter(Boolean).join(" · ")}<//>`;
}

/** @param {Record<string, unknown>} extra */
const extraOf = (extra) => {
  if (!Object.keys(extra).length) return html`<span class="faint">–</span>`;
  return html`<code>${JSON.stringify(readable(extra))}</code>`;
};

/**
 * What the newest event says of the asset: rows, columns, checksums … beside what the one before said.
 * @param {{ event?: Api["AssetEventResource"], before?: Api["AssetEventResource"] }} props
 */
const LastEvent = ({ event, before }) =>
  event &&
  Object.keys(event.extra).length > 0 && html`
    <${Card}
      title="Metadata of the last event"
      actions=${
        html`<span class="faint">
          <${When} at=${event.timestamp} ago />
        </span>`
      }
    >
      <div class="scroll" tabindex="0" role="group" aria-label="Metadata">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
              ${before && html`<th scope="col">The event before</th>`}
            </tr>
          </thead>
          <tbody>
            ${Object.entries(readable(event.extra)).map(([name, value]) => html`
              <tr key=${name}>
                <th scope="row">${name}</th>
                <td>
                  <${Value} value=${value} depth=${1} />
                </td>
                ${before && html`
                  <td>
                    ${Object.hasOwn(before.extra, name) ? html`
                      <${Value} value=${readable(before.extra)[name]} depth=${1} />
                    ` : (
                      "–"
                    )}
                  </td>
                `}
              </tr>
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;

/** @param {{ list: List<Api["AssetEventResource"]> }} props */
function Events({ list }) {
  /** @param {Api["AssetEventResource"]} e */
  const source = (e) => {
    if (!e.dag_id) return html`<span class="soft">a user or another system</span>`;
    const task = /** @type {import("../../lib/names.js").TaskPlace} */ (e);
    return html`
      <${Link} to=${taskPath(task)}>
        ${e.dag_id} · ${taskName(task)}
      <//>
    `;
  };
  /** @type {Column<Api["AssetEventResource"]>[]} */
  const columns = [
    { head: "Time", cell: (e) => html`<${When} at=${e.timestamp} ago />` },
    { head: "Source", cell: source },
    {
      head: "Run",
      cell: (e) =>
        e.dag_id &&
        e.run_id && html`
          <${Link} to=${path("dags", e.dag_id, "runs", e.run_id)} title=${e.run_id}>
            ${runName(e.run_id)}
          <//>
        `,
    },
    { head: "Extra", cell: (e) => extraOf(e.extra) },
  ];
  return html`
    <${Card} title="Events" plain>
      <${Table}
        columns=${columns}
        list=${list}
        keyOf=${(e) => e.id}
        empty=${html`<${Empty} title="No events yet" />`}
        caption="Events"
      />
    <//>
  `;
}

/** @param {DialogProps & { asset: Api["AssetResource"] }} props */
function Emit({ asset, onClose, onDone }) {
  const [text, setText] = useState("");
  const { value, wrong } = objectOf(text);
  return html`
    <${Confirm}
      title=${`Emit an event for ${asset.name}`}
      submitLabel="Emit"
      act=${() => post("asset-events", { extra: value }, { params: { name: asset.name } })}
      done="Event emitted."
      disabled=${Boolean(wrong)}
      cli=${commandLine("assets emit", [asset.name], ...(text.trim() ? ["--extra", text.trim()] : []))}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        ${asset.consumers.length ? html`
          As if a task had produced the asset. These DAGs are notified: ${dags(asset.consumers)}
        ` : (
          "No DAG depends on this asset: the event is only recorded."
        )}
      </p>
      <div class="field">
        <label for="extra">Extra</label>
        <textarea
          class="input"
          id="extra"
          rows="3"
          placeholder="{}"
          value=${text}
          onInput=${(e) => setText(e.target.value)}
        />
        ${wrong ? html`
          <span class="wrong">${wrong}</span>
        ` : html`
          <span class="help">A JSON object stored with the event.</span>
        `}
      </div>
    <//>
  `;
}
