// Assets: the list, and the lineage graph of producers and consumers.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import { Card, Empty, Link, Page, Tabs, Tag, When } from "../parts/basics.js";
import { FRESHNESS_CHOICES, Freshness } from "../parts/dependencies/words.js";
import { FilterBar } from "../parts/lists/bar.js";
import { isFiltered, paramsOf } from "../parts/lists/fields.js";
import { Table } from "../parts/table.js";
import { CheckTag } from "./assets/checks.js";
import { LineageCard } from "./assets/lineage.js";
import { Group, KINDS, dags } from "./assets/links.js";

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

/** @type {import("../parts/lists/fields.js").Field[]} */
const FIELDS = [
  { name: "group", words: "Group", one: true, free: true },
  {
    name: "freshness",
    words: "Freshness",
    one: true,
    options: /** @type {[string, string][]} */ (FRESHNESS_CHOICES),
  },
];

/** @typedef {Api["AssetResource"]} Asset */
/** @type {Column<Asset>} */
const GROUP = { head: "Group", width: 100, least: 1000, cell: (a) => html`<${Group} of=${a} />` };
/** @type {Column<Asset>} */
const OWNERS = { head: "Owners", width: 100, least: 1000, cell: (a) => a.owners.join(", ") };

function AssetList() {
  /** @type {List<Asset>} */
  const list = useList("assets", { ...paramsOf(FIELDS), q: query.value.q }, KINDS);
  /** @param {(asset: Asset) => boolean} has */
  const some = (has) => list.items.value.some(has); // no column of nothing
  /** @type {Column<Asset>[]} */
  const columns = [
    {
      head: "Asset",
      stays: "left",
      cell: (a) => html`
        <span class="row line">
          <${Link} class="clip" to=${path("assets", a.name)} title=${a.name}>
            ${a.name}
          <//>
          ${(a.check === "warn" || a.check === "fail") && html`<${CheckTag} before="check: " status=${a.check} />`}
          ${!a.is_active && html`<${Tag} kind="warn">not used by any DAG<//>`}
          ${a.description && html`
            <span class="soft clip" title=${a.description}>
              ${a.description}
            </span>
          `}
        </span>
      `,
    },
    ...(some((a) => a.group !== "asset") ? [GROUP] : []),
    ...(some((a) => a.owners.length > 0) ? [OWNERS] : []),
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
  const empty =
    query.value.q || isFiltered(FIELDS) ? html`
      <${Empty} title="No matching assets">
        Names, URIs, groups, owners and what their extra says are searched.
      <//>
    ` : html`
      <${Empty} title="No assets yet">
        Assets appear here when a task has them as outlets or a DAG has them in its schedule.
      <//>
    `;
  return html`
    <${FilterBar} fields=${FIELDS} search=${{ name: "q", words: "Search assets" }} />
    <${Card} plain>
      <${Table} columns=${columns} list=${list} keyOf=${(a) => a.name} empty=${empty} caption="Assets" />
    <//>
  `;
}
