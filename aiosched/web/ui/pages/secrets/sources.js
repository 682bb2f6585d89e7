// Where variables and connections come from: backends, the environment, the database.
import { html } from "../../lib/html.js";
import { useResource } from "../../lib/resources.js";
import { Card, Empty, Notice, Shown } from "../../parts/basics.js";
import { Table } from "../../parts/table.js";

/** @type {Column<Api["SecretSource"]>[]} */
const columns = [
  { head: "Name", cell: (one) => html`<code>${one.name}</code>` },
  { head: "Kind", cell: (one) => one.kind },
  { head: "From", cell: (one) => one.source },
  { head: "In effect", cell: (one) => (one.hidden_by ? `no, hidden by ${one.hidden_by}` : "yes") },
];

export function Sources() {
  /** @type {Resource<Api["SecretSources"]>} */
  const found = useResource("secret-sources");
  return html`
    <${Card} plain>
      <${Shown} of=${found}>
        ${
          /** @param {Api["SecretSources"]} sources */ (sources) => html`
            ${sources.problems.map((problem) => html`
              <${Notice} kind="danger" key=${problem}>
                ${problem}
              <//>
            `)}
            <${Table}
              columns=${columns}
              items=${sources.items}
              keyOf=${(/** @type {Api["SecretSource"]} */ one) => `${one.kind} ${one.name} ${one.source}`}
              empty=${html`<${Empty} title="No variables and no connections" />`}
              caption="Sources"
            />
          `
        }
      <//>
    <//>
  `;
}
