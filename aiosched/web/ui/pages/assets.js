// Assets: who makes them and who waits for them as a picture, the list, their events, and emitting one.
import { html, useState } from "../lib/html.js";
import { at, post, useList, useResource } from "../lib/api.js";
import { taskName, taskPath } from "../lib/names.js";
import { href, path, query } from "../lib/router.js";
import { layered } from "../lib/layered.js";
import { Card, Empty, Facts, Link, Page, Shown, Tabs, Tag, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed, objectOf } from "../parts/facts.js";
import { Table } from "../parts/table.js";

const KINDS = { kinds: ["asset", "dag", "run"] };

export function Assets() {
  const tab = query.value.tab || "list";
  return html`
    <${Page} title="Assets" lead="Tasks make assets; DAGs that wait for them run.">
      <${Tabs}
        tabs=${[
          ["list", "List"],
          ["lineage", "Lineage"],
        ]}
      />
      ${tab === "lineage" ? html`<${LineageCard} />` : html`<${AssetList} />`}
    <//>
  `;
}

const dags = (ids) =>
  ids.length ? html`
    <span class="row">
      ${ids.map((id) => html`
        <${Link} to=${path("dags", id)}>${id}<//>
      `)}
    </span>
  ` : html`
    <span class="faint">–</span>
  `;

function AssetList() {
  const list = useList("assets", {}, KINDS);
  const columns = [
    {
      head: "Asset",
      cell: (a) => html`
          <${Link} to=${path("assets", a.name)}>${a.name}<//>${" "}
          ${!a.is_active && html`<${Tag} kind="warn">no DAG names it<//>`}
      `,
    },
    { head: "Address", cell: (a) => html`<code class="soft">${a.uri}</code>` },
    { head: "Made by", cell: (a) => dags(a.producers) },
    { head: "Waited for by", cell: (a) => dags(a.consumers) },
    { head: "Last event", cell: (a) => html`<${When} at=${a.last_event_at} ago none="never" />` },
  ];
  const empty = html`
    <${Empty} title="No asset yet">
      A task with an asset among its outlets, or a DAG with one in its schedule, makes it appear here.
    <//>
  `;
  return html`
    <${Card} plain>
      <${Table} columns=${columns} list=${list} keyOf=${(a) => a.name} empty=${empty} caption="Assets" />
    <//>
  `;
}

// ---- lineage ----

const WIDE = 190;
const HIGH = 36;

function LineageCard({ around }) {
  const found = useResource("asset-lineage", {}, { kinds: ["asset", "dag"] });
  return html`
    <${Card} title="Lineage">
      <${Shown} of=${found}>
        ${(graph) => {
          const part = around ? near(graph, `asset:${around}`) : graph;
          return part.nodes.length ? html`
            <${Lineage} graph=${part} marked=${around && `asset:${around}`} />
          ` : html`
            <${Empty} title="No DAG makes or waits for an asset" />
          `;
        }}
      <//>
    <//>
  `;
}

/** The part of a graph that leads to a node or comes from it. */
function near({ nodes, edges }, start) {
  const found = new Set([start]);
  for (const [from, to] of [
    [0, 1],
    [1, 0],
  ]) {
    const waiting = [start];
    while (waiting.length) {
      const now = waiting.pop();
      for (const edge of edges)
        if (edge[from] === now && !found.has(edge[to])) {
          found.add(edge[to]);
          waiting.push(edge[to]);
        }
    }
  }
  return {
    nodes: nodes.filter((n) => found.has(n.id)),
    edges: edges.filter(([a, b]) => found.has(a) && found.has(b)),
  };
}

function Lineage({ graph, marked }) {
  const { places, width, height } = layered(
    graph.nodes.map((n) => n.id),
    graph.edges,
    { wide: WIDE, high: HIGH, across: 70, down: 14 },
  );
  const line = ([a, b]) => {
    const from = places.get(a);
    const to = places.get(b);
    const x1 = from.x + WIDE;
    const y1 = from.y + HIGH / 2;
    const x2 = to.x;
    const y2 = to.y + HIGH / 2;
    if (x2 <= x1)
      return `M${x1 - WIDE / 2},${from.y + HIGH} C${x1 - WIDE / 2},${y1 + 60} ${x2 + WIDE / 2},${y2 + 60} ${x2 + WIDE / 2},${to.y + HIGH}`; // back, in a circle
    const middle = Math.max((x2 - x1) / 2, 20);
    return `M${x1},${y1} C${x1 + middle},${y1} ${x2 - middle},${y2} ${x2},${y2}`;
  };
  return html`
    <div class="scroll lineage" tabindex="0" role="region" aria-label="Lineage of assets">
      <svg
        width=${width + 4}
        height=${height + 4}
        viewBox=${`-2 -2 ${width + 4} ${height + 4}`}
        role="group"
        aria-label=${`${graph.nodes.length} DAGs and assets`}
      >
        ${graph.edges.map((edge) => html`
          <path class=${edge.includes(marked) ? "edge near" : "edge"} d=${line(edge)} />
        `)}
        ${graph.nodes.map((n) => {
          const p = places.get(n.id);
          return html`
            <a
              href=${href(n.kind === "dag" ? path("dags", n.label) : path("assets", n.label))}
              aria-label=${`${n.kind === "dag" ? "DAG" : "asset"} ${n.label}`}
            >
              <g
                class=${`node ${n.kind} ${n.id === marked ? "marked" : ""}`}
                transform=${`translate(${p.x},${p.y})`}
              >
                <title>
                  ${n.kind === "dag" ? "DAG" : "asset"} ${n.label}
                </title>
                <rect width=${WIDE} height=${HIGH} rx=${n.kind === "dag" ? 6 : HIGH / 2} />
                <text x="14" y=${HIGH / 2 + 4} aria-hidden="true">
                  ${n.kind === "dag" ? "▤" : "◆"} ${n.label.length > 22 ? n.label.slice(0, 21) + "…" : n.label}
                </text>
              </g>
            </a>
          `;
        })}
      </svg>
      <p class="row wide faint">
        <span>▤ a DAG</span>
        <span>◆ an asset</span>
      </p>
    </div>
  `;
}

// ---- one asset ----

export function AssetPage({ asset }) {
  const found = useResource(at("assets", asset), {}, KINDS);
  const [open, setOpen] = useState(false);
  return html`
    <${Page}
      title=${asset}
      crumbs=${[["Assets", "/assets"]]}
      actions=${
        html`<${Allowed}>
          <button class="button primary" onClick=${() => setOpen(true)}>
            Emit an event …
          </button>
        <//>`
      }
    >
      <${Shown} of=${found}>
        ${(a) => html`
          <div class="stack">
            <${Card} title="Asset">
              <${Facts}
                rows=${[
                  ["Address", html`<code>${a.uri}</code>`],
                  ["Made by", dags(a.producers)],
                  ["Waited for by", dags(a.consumers)],
                  ["Last event", html`<${When} at=${a.last_event_at} none="never" />`],
                  ["Extra", Object.keys(a.extra).length === 0 ? null : html`<code>${JSON.stringify(a.extra)}</code>`],
                ]}
              />
            <//>
            <${Events} asset=${asset} />
            <${LineageCard} around=${asset} />
            ${open && html`<${Emit} asset=${a} onClose=${() => setOpen(false)} onDone=${found.reload} />`}
          </div>
        `}
      <//>
    <//>
  `;
}

function Events({ asset }) {
  const list = useList(`${at("assets", asset)}/events`, {}, KINDS);
  const source = (e) =>
    e.dag_id ? html`
      <${Link} to=${taskPath(e)}>
        ${e.dag_id} · ${taskName(e)}
      <//>
    ` : html`
      <span class="soft">a person or another system</span>
    `;
  const columns = [
    { head: "At", cell: (e) => html`<${When} at=${e.timestamp} />` },
    { head: "From", cell: source },
    {
      head: "Run",
      cell: (e) =>
        e.run_id && html`
          <${Link} class="mono" to=${path("dags", e.dag_id, "runs", e.run_id)}>
            ${e.run_id}
          <//>
        `,
    },
    {
      head: "Extra",
      cell: (e) =>
        Object.keys(e.extra).length ? html`<code>${JSON.stringify(e.extra)}</code>` : html`<span class="faint">–</span>`,
    },
  ];
  return html`
    <${Card} title="Events" plain>
      <${Table}
        columns=${columns}
        list=${list}
        keyOf=${(e) => e.id}
        empty=${html`<${Empty} title="It has no event yet" />`}
        caption="Events"
      />
    <//>
  `;
}

function Emit({ asset, onClose, onDone }) {
  const [text, setText] = useState("");
  const { value, wrong } = objectOf(text);
  return html`
    <${Confirm}
      title=${`Emit an event of ${asset.name}`}
      words="Emit"
      act=${() => post(`${at("assets", asset.name)}/events`, { extra: value })}
      done="The event is emitted."
      disabled=${Boolean(wrong)}
      cli=${commandLine("assets", "emit", asset.name, ...(text.trim() ? ["--extra", text.trim()] : []))}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        ${asset.consumers.length ? html`
          As if a task had made it. These DAGs hear of it: ${dags(asset.consumers)}
        ` : (
          "No DAG waits for this asset: the event is only kept."
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
          <span class="help">A JSON object that is kept with the event.</span>
        `}
      </div>
    <//>
  `;
}
