// The checks of an asset: what each said last, and before.
import { html } from "../../lib/html.js";
import { readable } from "../../lib/json.js";
import { taskName, taskPath } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { path } from "../../lib/router.js";
import { instant } from "../../lib/time.js";
import { Card, Link, Tag, When } from "../../parts/basics.js";
import { Value } from "../../parts/json.js";
import { Table } from "../../parts/table.js";
import { KINDS } from "./links.js";

/** @typedef {Api["AssetCheckResource"]} Check */
/** @typedef {Api["CheckResultResource"]} Result */

/** @type {Record<string, string>} */
const TAGS = { pass: "good", warn: "warn", fail: "danger" };

/** What a check says. @param {{ status: string, before?: string }} props */
export const CheckTag = ({ status, before = "" }) => html`
  <${Tag} kind=${TAGS[status]}>
    ${before}
    ${status}
  <//>
`;

/** @param {{ asset: string }} props */
export function Checks({ asset }) {
  /** @type {Resource<Api["AssetChecksResource"]>} */
  const found = useResource("asset-checks", { name: asset }, KINDS);
  const all = found.data.value?.checks;
  if (!all?.length) return null;
  return html`
    <${Card} title="Checks" plain>
      <${Table}
        columns=${COLUMNS}
        items=${all}
        keyOf=${(/** @type {Check} */ c) => JSON.stringify([c.dag_id, c.task_id])}
        caption="Checks"
      />
    <//>
  `;
}

const NOTHING = html`<span class="faint">not run</span>`;
/** @type {Column<Check>[]} */
const COLUMNS = [
  {
    head: "Check",
    cell: (c) => html`
      <span class="row near">
        <${Link} to=${pathOf(c)}>
          ${c.dag_id} · ${c.task_id}
        <//>
        ${c.is_blocking && html`
          <span title="Consumers wait until it has not failed">
            <${Tag}>blocking<//>
          </span>
        `}
      </span>
    `,
  },
  { head: "Result", cell: ({ last }) => (last ? html`<${CheckTag} status=${last.status} />` : NOTHING) },
  { head: "When", cell: ({ last }) => html`<${When} at=${last?.checked_at} ago none="never" />` },
  { head: "Message", cell: ({ last }) => last && html`<${Message} of=${last} />` },
  { head: "Newest results", cell: (c) => html`<${Newest} check=${c} />` },
];

/** @param {Check} check */
const pathOf = ({ dag_id, task_id, last }) =>
  last ? taskPath({ dag_id, task_id, run_id: last.run_id, map_index: last.map_index }) : path("dags", dag_id);

/** What a result says in words, and its metadata. @param {{ of: Result }} props */
const Message = ({ of }) => html`
  <div class="json">
    ${of.message && html`
      <span class="doc" style=${{ overflowWrap: "anywhere" }}>
        ${of.message}
      </span>
    `}
    ${Object.keys(of.metadata).length > 0 && html`<${Value} value=${readable(of.metadata)} depth=${1} />`}
  </div>
`;

/** The newest results, each with a link to its task. @param {{ check: Check }} props */
const Newest = ({ check: { dag_id, task_id, results } }) => html`
  <span class="row near">
    ${results.map(({ status, run_id, map_index, try_number, checked_at, message }) => html`
      <${Link}
        key=${`${run_id} ${map_index} ${try_number}`}
        to=${taskPath({ dag_id, task_id, run_id, map_index })}
        title=${[taskName({ task_id, map_index }), run_id, `try ${try_number}`, instant(checked_at), message]
          .filter(Boolean)
          .join(" · ")}
      >
        <${CheckTag} status=${status} />
      <//>
    `)}
  </span>
`;
