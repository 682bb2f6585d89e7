// A list grouped by a value, from its facets: how many there are of each, and a link to them.
import { html } from "../../lib/html.js";
import { query, setQuery } from "../../lib/router.js";
import { Card, Empty } from "../basics.js";
import { Filter } from "../form.js";
import { Table } from "../table.js";

/** @typedef {{ counts: Api["FacetValue"][], complete: boolean } | null} FacetData */

const GROUPS = [
  ["dag_id", "group by DAG"],
  ["reason", "group by error"],
];

/** By what the list is grouped; an address may say something else. */
export const chosenGroup = () => GROUPS.find(([by]) => by === query.value.group)?.[0];

/** Chooses by what the list is grouped. */
export const GroupBy = () => html`
  <${Filter}
    label="Group by"
    value=${chosenGroup()}
    any="not grouped"
    options=${GROUPS}
    onText=${(/** @type {string} */ text) => setQuery({ group: text })}
  />
`;

/**
 * The groups of a list; choosing one filters the list by it.
 * @param {{ facets: FacetData, by: string, noun: string }} props
 */
export function Groups({ facets, by, noun }) {
  const rows = (facets?.counts ?? []).filter((one) => one.facet === by);
  const head = by === "dag_id" ? "DAG" : "Error";
  /** @type {Column<Api["FacetValue"]>[]} */
  const columns = [
    {
      head,
      cell: ({ value }) =>
        value === null ? html`
          <span class="faint">none</span>
        ` : html`
          <button
            class="button quiet link"
            onClick=${() => setQuery({ [by]: value, group: null }, { push: true })}
          >
            ${value}
          </button>
        `,
    },
    { head: noun, right: true, cell: ({ number }) => number },
  ];
  return html`
    <${Card} plain>
      ${facets && !facets.complete && html`
        <p class="soft pad">Counted among the newest only: choose a shorter time for exact numbers.</p>
      `}
      <${Table}
        columns=${columns}
        items=${rows}
        keyOf=${(/** @type {Api["FacetValue"]} */ one) => String(one.value)}
        empty=${html`<${Empty} title="Nothing matches these filters" />`}
        caption=${`${noun} by ${head}`}
      />
    <//>
  `;
}
