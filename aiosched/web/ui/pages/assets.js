// Assets: the list, and the lineage graph of producers and consumers.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query, setQuery } from "../lib/router.js";
import { Card, Empty, Link, Page, Tabs, Tag, When } from "../parts/basics.js";
import { FRESHNESS_CHOICES, Freshness } from "../parts/dependencies/words.js";
import { FilterField } from "../parts/facts.js";
import { Filter } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { LineageCard } from "./assets/lineage.js";
import { KINDS, dags } from "./assets/links.js";

export function Assets() {
  const tab = query.value.tab || "list";
  return html`
    <${Page} title="Assets" lead="Tasks update assets; DAGs scheduled on them run when they are updated.">
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

function AssetList() {
  /** @type {List<Api["AssetResource"]>} */
  const list = useList("assets", { freshness: query.value.freshness, q: query.value.q }, KINDS);
  /** @type {Column<Api["AssetResource"]>[]} */
  const columns = [
    {
      head: "Asset",
      stays: "left",
      cell: (a) => html`
        <span class="row line">
          <${Link} class="clip" to=${path("assets", a.name)} title=${a.name}>
            ${a.name}
          <//>
          ${!a.is_active && html`<${Tag} kind="warn">not used by any DAG<//>`}
        </span>
      `,
    },
    {
      head: "URI",
      cell: (a) => html`
        <code class="soft" title=${a.uri}>
          ${a.uri}
        </code>
      `,
    },
    { head: "Freshness", width: 220, cell: (a) => html`<${Freshness} asset=${a} />` },
    { head: "Produced by", cell: (a) => dags(a.producers) },
    { head: "Consumed by", cell: (a) => dags(a.consumers) },
    { head: "Last event", width: 120, cell: (a) => html`<${When} at=${a.last_event_at} ago none="never" />` },
  ];
  const empty = query.value.q ? html`
    <${Empty} title="No matching assets">Names and URIs are searched.<//>
  ` : query.value.freshness ? html`
    <${Empty} title=${`No asset is ${query.value.freshness}`} />
  ` : html`
    <${Empty} title="No assets yet">
      Assets appear here when a task has them as outlets or a DAG has them in its schedule.
    <//>
  `;
  return html`
    <div class="row filters">
      <${FilterField} name="q" words="Name or URI" />
      <${Filter}
        label="Freshness"
        value=${query.value.freshness}
        any="any freshness"
        options=${FRESHNESS_CHOICES}
        onText=${(/** @type {string} */ text) => setQuery({ freshness: text })}
      />
    </div>
    <${Card} plain>
      <${Table} columns=${columns} list=${list} keyOf=${(a) => a.name} empty=${empty} caption="Assets" />
    <//>
  `;
}
