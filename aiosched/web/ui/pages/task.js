// A task instance: its tries with their logs, why it waits or failed, what it pushed, its fields, events and definition.
import { html, useEffect, useState } from "../lib/html.js";
import { at, get, may, useList, useResource } from "../lib/api.js";
import { watchTopic } from "../lib/live.js";
import { taskName, taskPath } from "../lib/names.js";
import { here, href, path, query } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { duration, secondsBetween } from "../lib/time.js";
import { ClearDialog, MarkDialog } from "../parts/actions.js";
import {
  Card,
  Empty,
  Facts,
  Failure,
  Link,
  Loading,
  Page,
  Said,
  Shown,
  State,
  Tabs,
  Tag,
  When,
} from "../parts/basics.js";
import { toast } from "../parts/dialog.js";
import { Allowed, Folded, Note, Text, pretty } from "../parts/facts.js";
import { LogView, bytes } from "../parts/log.js";
import { Table } from "../parts/table.js";
import { WhyCard } from "../parts/why.js";

const TABS = [
  ["log", "Log"],
  ["xcom", "XCom"],
  ["rendered", "Rendered"],
  ["events", "Events"],
  ["details", "Details"],
];
const ACTIVE = ["running", "restarting", "shutdown"]; // these write logs; the others wait or are over
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

export function TaskPage({ dag, run, task }) {
  const named = query.value.map_index !== undefined;
  const found = useList(
    named ? null : at("dags", dag, "runs", run, "tasks"),
    { task_id: task },
    { kinds: ["task"], limit: 100 },
  );
  if (named) return html`<${TaskLoader} dag=${dag} run=${run} task=${task} mapIndex=${Number(query.value.map_index)} />`;
  const [one] = found.items.value;
  if (one?.map_index === -1) return html`<${TaskLoader} dag=${dag} run=${run} task=${task} mapIndex=${-1} />`;
  return html`<${Instances} dag=${dag} run=${run} task=${task} list=${found} />`;
}

function TaskLoader({ dag, run, task, mapIndex }) {
  const facts = useResource(
    at("dags", dag, "runs", run, "tasks", task),
    { map_index: mapIndex },
    { kinds: ["task", "run"], concerns: (p) => p.kind === "task" || p.dag_id === dag },
  );
  const key = facts.data.value?.run_key;
  useEffect(() => key && watchTopic(`run:${key}`), [key]);
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

const crumbsOf = (dag, run) => [
  ["DAGs", "/dags"],
  [dag, path("dags", dag)],
  [run, path("dags", dag, "runs", run)],
];

/** The instances of a mapped task, where the address names none of them. */
function Instances({ dag, run, task, list }) {
  const columns = [
    {
      head: "Instance",
      cell: (t) => html`<${Link} to=${taskPath({ ...t, dag_id: dag, run_id: run })}>${taskName(t)}<//>`,
    },
    { head: "State", cell: (t) => html`<${State} name=${t.state} />` },
    { head: "Try", right: true, cell: (t) => t.try_number || "–" },
    { head: "Started", cell: (t) => html`<${When} at=${t.start_date} />` },
    {
      head: "Duration",
      right: true,
      cell: (t) => (t.start_date ? duration(secondsBetween(t.start_date, t.end_date)) : "–"),
    },
  ];
  const empty = html`
    <${Empty} title=${`The run has no instance of ${task}`}>
      The task may have another name, or what it maps over is not known yet.
    <//>
  `;
  return html`
    <${Page}
      title=${task}
      crumbs=${crumbsOf(dag, run)}
      lead=${list.items.value.length > 0 && "a mapped task: these are its instances in this run"}
    >
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(t) => t.map_index} empty=${empty} caption="Instances" />
      <//>
    <//>
  `;
}

function Task({ task, reload }) {
  const [open, setOpen] = useState(null);
  const { dag_id: dag, run_id: run, task_id: id, map_index: mapIndex } = task;
  const base = at("dags", dag, "runs", run, "tasks", id);
  const params = mapIndex >= 0 ? { map_index: mapIndex } : {};
  const name = taskName(task);
  const tries = useResource(`${base}/tries`, params, { kinds: ["task"], concerns: (p) => p.run === task.run_key });
  const tab = query.value.tab || "log";
  const actions = html`
    <${Allowed}>
      <button class="button" onClick=${() => setOpen("clear")}>
        Clear …
      </button>
      <button class="button" onClick=${() => setOpen("mark")}>
        Mark …
      </button>
    <//>
  `;
  return html`
    <${Page}
      title=${name}
      crumbs=${crumbsOf(dag, run)}
      actions=${actions}
      lead=${
        html`
          <${State} name=${task.state} />
          <span class="soft">${task.start_date && duration(secondsBetween(task.start_date, task.end_date))}</span>
          ${task.try_number > 0 && html`
            <span class="soft">
              try ${task.try_number} of ${task.max_tries + 1}
            </span>
          `}
          ${task.next_at && html`
            <span class="soft">
              next <${When} at=${task.next_at} ago />
            </span>
          `}
        `
      }
    >
      <${Said} words=${`${name} is ${stateOf(task.state).label}`} />
      <div class="columns wide-first">
        <${Card} title="Task instance">
          <${Facts}
            rows=${[
              [
                "Operator",
                html`
                  ${task.operator}
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
              ["Because", task.reason],
              ["Note", html`<${Note} path=${`${base}/note`} params=${params} text=${task.note} onDone=${reload} />`],
            ]}
          />
        <//>
        ${EXPLAINED.includes(task.state) && html`
          <${WhyCard}
            of=${base}
            params=${params}
            concerns=${(p) => p.kind === "task" || p.dag_id === dag || p.kind === "pool"}
          />
        `}
      </div>
      <${Tabs} tabs=${TABS} keep=${["map_index", "try"]} />
      ${tab === "log" && html`
        <${Shown} of=${tries}>
          ${({ items }) => html`<${Log} task=${task} base=${base} params=${params} tries=${items} name=${name} />`}
        <//>
      `}
      ${tab === "xcom" && html`<${XComs} base=${base} params=${params} />`}
      ${tab === "rendered" && html`<${Rendered} base=${base} params=${params} />`}
      ${tab === "events" && html`<${Events} base=${base} params=${params} />`}
      ${tab === "details" && html`<${Definition} task=${task} />`}
      ${open === "clear" && html`
        <${ClearDialog}
          dagId=${dag}
          selection=${{ run_ids: [run], task_ids: [id], ...(mapIndex >= 0 && { map_index: mapIndex }) }}
          onClose=${() => setOpen(null)}
          onDone=${reload}
        />
      `}
      ${open === "mark" && html`
        <${MarkDialog}
          dagId=${dag}
          runId=${run}
          taskId=${id}
          mapIndex=${mapIndex}
          onClose=${() => setOpen(null)}
          onDone=${reload}
        />
      `}
    <//>
  `;
}

// ---- tries and their logs ----

function Log({ task, base, params, tries, name }) {
  const numbers = [...new Set([...tries.map((t) => t.try_number), ...task.logs])]
    .filter((n) => n > 0)
    .sort((a, b) => a - b);
  const chosen = Number(query.value.try) || numbers.at(-1);
  const one = tries.find((t) => t.try_number === chosen);
  if (!numbers.length)
    return html`
      <${Card}>
        <${Empty} title="It has not been tried yet">Its log appears here with the first try.<//>
      <//>
    `;
  const address = (n) =>
    href(here.value.path + "?" + new URLSearchParams([...Object.entries(params), ["try", n]]));
  const running = chosen === task.try_number && ACTIVE.includes(task.state);
  return html`
    <div class="stack tight">
      ${numbers.length > 1 && html`
        <nav class="choices row" aria-label="Tries">
          ${numbers.map((n) => {
            const t = tries.find((each) => each.try_number === n);
            return html`
              <a
                class=${n === chosen ? "choice on" : "choice"}
                aria-current=${n === chosen ? "page" : undefined}
                href=${address(n)}
                title=${stateOf(t?.state).label}
              >
                <${State} name=${t?.state} bare /> Try ${n}
              </a>
            `;
          })}
        </nav>
      `}
      ${one && html`
        <div class="row wide soft">
          ${one.start_date && html`
            <span>
              started <${When} at=${one.start_date} />
            </span>
          `}
          ${one.start_date && html`<span class="tabular">${duration(secondsBetween(one.start_date, one.end_date))}</span>`}
          ${one.hostname && html`
            <span>
              on ${one.hostname}
              ${one.pid ? `, process ${one.pid}` : ""}
            </span>
          `}
          ${one.source_hash && html`
            <span class="sentence">
              code of${" "}
              ${one.version ? html`
                <${Link} to=${`/dags/${encodeURIComponent(task.dag_id)}?tab=code&version=${one.version}`}>
                  version ${one.version}
                <//>
              ` : (
                "no version that is stored"
              )}
              , source <code>${one.source_hash}</code>
            </span>
          `}
          ${one.reason && one.reason !== task.reason && html`<span>${one.reason}</span>`}
        </div>
      `}
      ${one?.details && html`<${Folded} title="Traceback" text=${one.details} />`}
      <${Card} plain>
        <${LogView}
          key=${chosen}
          path=${`${base}/logs/${chosen}`}
          params=${params}
          name=${`${name}.try-${chosen}.log`}
          running=${running}
          failed=${one?.state === "failed" || one?.state === "up_for_retry"}
        />
      <//>
    </div>
  `;
}

// ---- what it pushed, its fields, what happened, what it is ----

function XComs({ base, params }) {
  const list = useList(`${base}/xcom`, params, { kinds: ["task"], limit: 50 });
  if (list.error.value)
    return html`
      <${Card}>
        <${Failure} error=${list.error.value} retry=${list.reload} />
      <//>
    `;
  if (!list.items.value.length)
    return html`
      <${Card}>
        ${list.loading.value ? html`
          <${Loading} />
        ` : html`
          <${Empty} title="It has pushed nothing">What a task returns or pushes stands here.<//>
        `}
      <//>
    `;
  return html`
    <div class="stack">
      ${list.items.value.map((one) => html`
        <${XCom} key=${one.key} one=${one} base=${base} params=${params} />
      `)}
      ${list.more.value && html`
        <button class="button" onClick=${() => list.next()}>
          Show more
        </button>
      `}
    </div>
  `;
}

function XCom({ one, base, params }) {
  const [whole, setWhole] = useState(null);
  const read = async () => {
    try {
      setWhole((await get(`${base}/xcom/${encodeURIComponent(one.key)}`, params)).value);
    } catch (error) {
      toast(error.message, "danger");
    }
  };
  const value = whole ?? one.value;
  let text = value;
  let cut = false;
  try {
    const parsed = JSON.parse(value);
    if (!/\d{16}/.test(value)) text = pretty(parsed);
  } catch {
    cut = whole === null;
  } // longer numbers would be rounded
  return html`
    <${Card}
      title=${html`<code>${one.key}</code>`}
      actions=${
        html`
          <span class="faint">
            ${bytes(one.size)} · <${When} at=${one.created_at} />
          </span>
          ${cut && html`
            <button class="button small" onClick=${read}>
              Show all of it
            </button>
          `}
        `
      }
    >
      <${Text} text=${text} />
    <//>
  `;
}

const missing = (of, words) =>
  of.error.value?.status === 404 && html`
    <${Card}>
      <${Empty} title=${words} />
    <//>
  `;

/** Rendering starts a process that reads the DAG's file: done when asked for, not with every change. */
function Rendered({ base, params }) {
  const found = useResource(may("operator") ? `${base}/rendered` : null, params);
  if (!may("operator"))
    return html`
      <${Card}>
        <${Empty} title="Only for operators">
          Rendering runs code of the DAG, so it needs the role operator; the templates themselves stand under
          Details.
        <//>
      <//>
    `;
  return html`
    <${Card}
      title="Rendered fields"
      actions=${
        html`<button class="button small" onClick=${() => found.reload()}>
          Render again
        </button>`
      }
    >
      <${Shown} of=${found}>
        ${({ fields }) =>
          Object.keys(fields).length ? html`
            <div class="stack">
              ${Object.entries(fields).map(([name, value]) => html`
                <div class="stack tight" key=${name}>
                  <b class="mono">${name}</b>
                  <${Text} text=${typeof value === "string" ? value : pretty(value)} />
                </div>
              `)}
            </div>
          ` : html`
            <${Empty} title="It has no fields with templates" />
          `
        }
      <//>
    <//>
  `;
}

function Events({ base, params }) {
  const found = useResource(`${base}/events`, params, { kinds: ["task", "command"] });
  const columns = [
    { head: "At", cell: (e) => html`<${When} at=${e.at} />` },
    { head: "Try", right: true, cell: (e) => e.try_number ?? "" },
    { head: "What", cell: (e) => (e.state ? html`<${State} name=${e.state} />` : e.words) },
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
            empty=${html`<${Empty} title="Nothing has happened yet" />`}
          />
        `}
      <//>
    <//>
  `;
}

function Definition({ task }) {
  const d = task.definition;
  const links = (ids) =>
    ids.length ? html`
      <span class="row">
        ${ids.map((id) => html`
          <${Link} to=${path("dags", task.dag_id, "runs", task.run_id, "tasks", id)}>${id}<//>
        `)}
      </span>
    ` : html`
      <span class="faint">none</span>
    `;
  return html`
    <div class="columns">
      <${Card} title="Definition">
        <${Facts}
          rows=${[
            ["Operator", d.operator],
            ["Owner", d.owner],
            ["Group", d.group_id],
            ["Before it", links(d.upstream)],
            ["After it", links(d.downstream)],
            ["Trigger rule", html`<code>${d.trigger_rule}</code>`],
            ["Retries", d.retries],
            ["Pool", `${d.pool}, ${d.pool_slots} of its slots`],
            ["Priority", d.priority_weight],
            ["Executor", d.executor],
            [
              "Also",
              [
                d.is_setup && "setup",
                d.is_teardown && "teardown",
                d.depends_on_past && "depends on its run before",
                d.is_mapped && "mapped",
              ]
                .filter(Boolean)
                .join(", "),
            ],
          ]}
        />
        ${d.doc && html`<p class="doc">${d.doc}</p>`}
      <//>
      <${Card} title="Templates">
        ${Object.keys(task.template_fields).length ? html`
          <div class="stack">
            ${Object.entries(task.template_fields).map(([name, value]) => html`
              <div class="stack tight">
                <b class="mono">${name}</b>
                <${Text} text=${typeof value === "string" ? value : pretty(value)} />
              </div>
            `)}
          </div>
        ` : html`
          <p class="soft">It has no fields with templates.</p>
        `}
      <//>
    </div>
  `;
}
