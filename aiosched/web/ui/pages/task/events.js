// The events of a task instance.
import { html } from "../../lib/html.js";
import { useResource } from "../../lib/resources.js";
import { Card, Empty, Shown, State, When } from "../../parts/basics.js";
import { Table } from "../../parts/table.js";

/** @param {{ base: string, params: InstanceParams }} props */
export function Events({ base, params }) {
  /** @type {Resource<{ items: Api["HistoryEvent"][] }>} */
  const found = useResource(`${base}/events`, params, { kinds: ["task", "command"] });
  /** @type {Column<Api["HistoryEvent"]>[]} */
  const columns = [
    { head: "Time", cell: (e) => html`<${When} at=${e.at} ms />` },
    { head: "Try", right: true, cell: (e) => e.try_number ?? "" },
    { head: "Event", cell: (e) => (e.state ? html`<${State} name=${e.state} />` : e.words) },
    { head: "By", cell: (e) => e.by ?? "" },
    { head: "", cell: (e) => html`<span class="soft">${e.detail ?? ""}</span>` },
  ];
  return html`
    <${Card} plain>
      <${Shown} of=${found}>
        ${({ items }) => html`
          <${Table}
            items=${items}
            keyOf=${(e) => `${e.at} ${e.words} ${e.try_number} ${e.command}`}
            caption="Events"
            columns=${columns}
            empty=${html`<${Empty} title="No events yet" />`}
          />
        `}
      <//>
    <//>
  `;
}
