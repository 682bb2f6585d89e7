// Schedules that are data: when each starts its next run, what became of the last; pausing and removing them.
import { html, useState } from "../lib/html.js";
import { at, post, remove } from "../lib/api.js";
import { useList } from "../lib/resources.js";
import { path } from "../lib/router.js";
import { Card, Empty, Link, Page, Tag, When } from "../parts/basics.js";
import { Confirm, commandLine } from "../parts/dialog.js";
import { Allowed } from "../parts/facts.js";
import { FilterBar } from "../parts/lists/bar.js";
import { isFiltered, paramsOf } from "../parts/lists/fields.js";
import { Table } from "../parts/table.js";

/** @typedef {"pause" | "resume" | "remove"} Verb */
/** @typedef {Api["ScheduleResource"]} Schedule */

/** @type {Record<Verb, [label: string, effect: string, done: string]>} */
const VERBS = {
  pause: ["Pause", "It starts no runs until it is resumed.", "Schedule paused."],
  resume: ["Resume", "The last missed instant has a run, with catchup each.", "Schedule resumed."],
  remove: ["Remove", "It starts no runs any more. Its runs stay.", "Schedule removed."],
};

/** @type {import("../parts/lists/fields.js").Field[]} */
const FIELDS = [
  { name: "dag_id", words: "DAG", one: true, free: true },
  {
    name: "paused",
    words: "State",
    one: true,
    options: [
      ["false", "active"],
      ["true", "paused"],
    ],
  },
];

export function Schedules() {
  /** @type {List<Api["ScheduleResource"]>} */
  const list = useList("schedules", paramsOf(FIELDS), {
    kinds: ["run", "command", "dag"],
    limit: 50,
    delay: 1000,
  });
  const [action, setAction] = useState(/** @type {[Schedule, Verb] | null} */ (null));
  const empty = html`
    <${Empty}
      title=${isFiltered(FIELDS) ? "No matching schedules" : "No schedules"}
      command="aiosched schedules set DAG NAME --every 3600"
    >
      Applications and people make them, thousands on one DAG. Those that DAG files declare are on the page of
      DAGs.
    <//>
  `;
  return html`
    <${Page} title="Schedules" lead="Schedules that are data, beside those of DAG files.">
      <${FilterBar} fields=${FIELDS} />
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setAction)}
          list=${list}
          keyOf=${(s) => `${s.dag_id} ${s.name}`}
          empty=${empty}
          caption="Schedules"
        />
      <//>
      ${action && html`
        <${Change} of=${action[0]} verb=${action[1]} onClose=${() => setAction(null)} onDone=${list.reload} />
      `}
    <//>
  `;
}

/**
 * @param {(action: [Schedule, Verb]) => void} setAction
 * @returns {Column<Api["ScheduleResource"]>[]}
 */
const columnsOf = (setAction) => [
  { head: "DAG", cell: (s) => html`<${Link} to=${path("dags", s.dag_id)}>${s.dag_id}<//>` },
  {
    head: "Name",
    cell: (s) => html`
      <${Link} to=${`/runs?${runsOf(s)}`} title="Its runs">
        ${s.name}
      <//>
    `,
  },
  { head: "Schedule", cell: (s) => html`<span class="mono">${s.summary}</span>` },
  { head: "Next run", cell: (s) => (s.is_paused ? html`<${Tag} kind="warn">paused<//>` : html`<${Next} of=${s} />`) },
  { head: "Last run", cell: (s) => html`<${Last} of=${s} />` },
  {
    head: "",
    cell: (s) => html`
      <${Allowed} quiet>
        <span class="row near">
          <button class="button small" onClick=${() => setAction([s, s.is_paused ? "resume" : "pause"])}>
            ${s.is_paused ? "Resume" : "Pause"}
          </button>
          <button class="button small danger" onClick=${() => setAction([s, "remove"])}>
            Remove
          </button>
        </span>
      <//>
    `,
  },
];

/** @param {Schedule} s */
const runsOf = (s) => new URLSearchParams({ dag_id: s.dag_id, search: `${s.name}__` });

/** @param {{ of: Schedule }} props */
const Next = ({ of: s }) => html`<${When} at=${s.next_at} none="none" />`;

/** @param {{ of: Schedule }} props */
const Last = ({ of: s }) => html`
  <span>
    <${When} at=${s.last_at} ago none="none yet" /> ${s.last_state} ${s.error && html`<p class="late">${s.error}</p>`}
  </span>
`;

/** @param {DialogProps & { of: Schedule, verb: Verb }} props */
function Change({ of: s, verb, onClose, onDone }) {
  const [words, effect, done] = VERBS[verb];
  const place = at("dags", s.dag_id, "schedules", s.name);
  return html`
    <${Confirm}
      title=${`${words} schedule ${s.name} of ${s.dag_id}`}
      submitLabel=${words}
      danger=${verb === "remove"}
      act=${() => (verb === "remove" ? remove(place) : post(`${place}/${verb}`))}
      done=${done}
      cli=${commandLine(`schedules ${verb}`, [s.dag_id, s.name])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>${effect}</p>
    <//>
  `;
}
