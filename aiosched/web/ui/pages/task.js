// A task instance: its tries and logs, why it is waiting or failed, its XComs, rendered fields and events.
import { html, useEffect, useState } from "../lib/html.js";
import { at, may } from "../lib/api.js";
import { useKey } from "../lib/keys.js";
import { watchTopic } from "../lib/live.js";
import { operatorWords, shownTask, taskName, taskPath } from "../lib/names.js";
import { useList, useResource } from "../lib/resources.js";
import { query, setQuery } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { ClearDialog } from "../parts/actions/clear.js";
import { MarkDialog } from "../parts/actions/mark.js";
import { Announce, Card, Facts, Link, Page, Shown, State, Tabs, Tag, When } from "../parts/basics.js";
import { IdOf } from "../parts/copy.js";
import { Allowed, Note } from "../parts/facts.js";
import { NextFailed } from "../parts/lists/next_failed.js";
import { WhyCard } from "../parts/why.js";
import { Definition } from "./task/definition.js";
import { Events } from "./task/events.js";
import { Instances, crumbsOf } from "./task/instances.js";
import { Question } from "./task/question.js";
import { Rendered } from "./task/rendered.js";
import { Log } from "./task/tries.js";
import { XComs } from "./task/xcom.js";

/** @typedef {{ task: Api["TaskDetails"], base: string, params: InstanceParams }} TabProps */

const TABS = [
  ["log", "Log"],
  ["xcom", "XCom"],
  ["rendered", "Rendered"],
  ["events", "Events"],
  ["details", "Details"],
];

const EXPLAINED = [
  "none",
  "scheduled",
  "queued",
  "deferred",
  "up_for_retry",
  "up_for_reschedule",
  "upstream_failed",
  "skipped",
  "failed",
];

/** @param {{ dag: string, run: string, task: string }} props */
export function TaskPage({ dag, run, task: name }) {
  const [, task, index] = /^(.+)\[(\d+)\]$/.exec(name) ?? ["", name, query.value.map_index];
  const named = index !== undefined;
  /** @type {List<Api["TaskInstanceResource"]>} */
  const found = useList(
    named ? null : at("dags", dag, "runs", run, "tasks"),
    { task_id: task, state: query.value.state },
    { kinds: ["task"], limit: 200 },
  );
  const wanted = { dag, run, task };
  if (named) return html`<${TaskLoader} ...${wanted} mapIndex=${Number(index)} />`;
  const [one] = found.items.value;
  if (one?.map_index === -1) return html`<${TaskLoader} ...${wanted} mapIndex=${-1} />`;
  return html`<${Instances} ...${wanted} list=${found} />`;
}

/** @param {{ dag: string, run: string, task: string, mapIndex: number }} props */
function TaskLoader({ dag, run, task, mapIndex }) {
  /** @type {Resource<Api["TaskDetails"]>} */
  const facts = useResource(
    at("dags", dag, "runs", run, "tasks", task),
    { map_index: mapIndex },
    { kinds: ["task", "run"], concerns: (p) => p.kind === "task" || p.dag_id === dag },
  );
  const key = facts.data.value?.run_key;
  useEffect(() => (key ? watchTopic(`run:${key}`) : undefined), [key]);
  if (!facts.data.value)
    return html`
      <${Page} title=${task} crumbs=${crumbsOf(dag, run)}>
        <${Card}>
          <${Shown} of=${facts} lines=${6} />
        <//>
      <//>
    `;
  return html`<${Task} key=${`${task} ${mapIndex}`} task=${facts.data.value} reload=${facts.reload} />`;
}

/** @param {{ task: Api["TaskDetails"], reload: () => void }} props */
function Task({ task, reload }) {
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const { dag_id: dag, run_id: run, task_id: id, map_index: mapIndex } = task;
  const base = at("dags", dag, "runs", run, "tasks", id);
  const params = mapIndex >= 0 ? { map_index: mapIndex } : {};
  const name = shownTask(task);
  const markTarget = { dagId: dag, runId: run, taskId: id, mapIndex };
  const handlers = { onClose: () => setOpen(null), onDone: reload };
  const selection = { run_ids: [run], task_ids: [id], ...(mapIndex >= 0 && { map_index: mapIndex }) };
  return html`
    <${Page}
      title=${name}
      crumbs=${crumbsOf(dag, run, task.dag_display_name)}
      actions=${html`<${Actions} task=${task} setOpen=${setOpen} reload=${reload} />`}
      lead=${html`<${Lead} task=${task} />`}
    >
      <${Announce} text=${`${name} is ${stateOf(task.state).label}`} />
      <div class="log-first">
        ${EXPLAINED.includes(task.state) && html`
          <div class="reasons">
            <${WhyCard}
              of=${base}
              params=${params}
              concerns=${(p) => p.kind === "task" || p.dag_id === dag || p.kind === "pool"}
            />
          </div>
        `}
        <div class="stack">
          <${Tabs} tabs=${TABS} keep=${["map_index", "try"]} />
          <${Tab} task=${task} base=${base} params=${params} name=${name} />
        </div>
        <div class="about">
          <${TaskFacts} task=${task} base=${base} params=${params} reload=${reload} />
        </div>
      </div>
      ${open === "clear" && html`<${ClearDialog} dagId=${dag} selection=${selection} ...${handlers} />`}
      ${open === "mark" && html`<${MarkDialog} ...${markTarget} ...${handlers} />`}
    <//>
  `;
}

/**
 * The tab selected by the query string: logs, XComs, rendered fields, events or details.
 * @param {TabProps & { name: string }} props
 */
function Tab({ task, base, params, name }) {
  /** @type {Resource<Api["Page_Try_"]>} */
  const tries = useResource(`${base}/tries`, params, {
    kinds: ["task"],
    concerns: (p) => p.run === task.run_key,
  });
  const tab = query.value.tab || "log";
  if (tab === "log")
    return html`
      <${Shown} of=${tries}>
        ${({ items }) => html`<${Log} task=${task} base=${base} params=${params} tries=${items} name=${name} />`}
      <//>
    `;
  if (tab === "xcom") return html`<${XComs} base=${base} params=${params} />`;
  if (tab === "rendered") return html`<${Rendered} task=${task} base=${base} params=${params} />`;
  if (tab === "events") return html`<${Events} base=${base} params=${params} />`;
  return tab === "details" ? html`<${Definition} task=${task} />` : null;
}

/** @param {{ task: Api["TaskDetails"], setOpen: (action: string) => void, reload: () => void }} props */
function Actions({ task, setOpen, reload }) {
  const { dag_id, run_id, task_id, map_index } = task;
  useKey("r", "rerun this task", () => may("operator") && setOpen("clear"));
  useKey("l", "show the log", () => setQuery({ tab: null }));
  return html`
    <${NextFailed}
      list="task-instances"
      after=${{
        after_dag_id: dag_id,
        after_run_id: run_id,
        after_task_id: task_id,
        after_map_index: map_index,
      }}
      pathOf=${taskPath}
    />
    <${Allowed}>
      ${task.state === "deferred" && html`<${Question} task=${task} onDone=${reload} />`}
      <button class="button" aria-keyshortcuts="r" onClick=${() => setOpen("clear")}>
        Clear …
      </button>
      <button class="button" onClick=${() => setOpen("mark")}>
        Mark …
      </button>
    <//>
  `;
}

/** @param {{ task: Api["TaskDetails"] }} props */
function Lead({ task }) {
  return html`
    <${State} name=${task.state} />
    <${IdOf} id=${taskName(task)} name=${task.task_display_name} />
    ${task.map_label && html`<${Tag}>${task.map_label}<//>`}
    <span class="soft">${task.start_date && duration(secondsBetween(task.start_date, task.end_date))}</span>
    ${task.try_number > 0 && html`
      <span class="soft">
        try ${task.try_number} of ${task.max_tries + 1}
      </span>
    `}
    ${task.links.map((link) => html`
      <a key=${link.name} href=${link.url} target="_blank" rel="noreferrer noopener">
        ${link.name}
      </a>
    `)}
    ${task.next_at && html`
      <span class="soft">
        next <${When} at=${task.next_at} ago />
      </span>
    `}
  `;
}

/** @param {TabProps & { reload: () => void }} props */
function TaskFacts({ task, base, params, reload }) {
  return html`
    <${Card} title="Task instance">
      <${Facts}
        rows=${[
          [
            "Operator",
            html`
              ${operatorWords(task.operator)}
              ${task.definition.is_mapped ? html`
                ${" "}
                <${Tag}>mapped<//>
              ` : (
                ""
              )}
            `,
          ],
          [
            "Pool",
            html`
              <${Link} to=${`/pools?pool=${encodeURIComponent(task.pool)}`}>${task.pool}<//>${" "}
              <span class="faint">
                ${task.definition.pool_slots} ${task.definition.pool_slots === 1 ? "slot" : "slots"}
              </span>
            `,
          ],
          ["Scheduled", task.scheduled_at && html`<${When} at=${task.scheduled_at} />`],
          [
            "Queued",
            task.queued_at && html`
              <${When} at=${task.queued_at} />
              ${task.start_date && html`
                ${" "}
                <span class="faint">
                  waited ${duration(secondsBetween(task.queued_at, task.start_date))}
                </span>
              `}
            `,
          ],
          ["Started", html`<${When} at=${task.start_date} />`],
          ["Ended", html`<${When} at=${task.end_date} />`],
          ["Reason", task.reason],
          ["Note", html`<${Note} path=${`${base}/note`} params=${params} text=${task.note} onDone=${reload} />`],
        ]}
      />
    <//>
  `;
}
