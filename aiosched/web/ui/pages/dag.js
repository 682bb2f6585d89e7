// A DAG: header with pause switch and actions, and its views as tabs.
import { html } from "../lib/html.js";
import { at, may } from "../lib/api.js";
import { scheduleWords } from "../lib/cron.js";
import { useKey } from "../lib/keys.js";
import { shownDag } from "../lib/names.js";
import { useResource } from "../lib/resources.js";
import { go, here, query, setQuery } from "../lib/router.js";
import { instant, now, relative } from "../lib/time.js";
import { PauseSwitch, scheduledWords } from "../parts/actions/pause.js";
import { TriggerDialog } from "../parts/actions/trigger.js";
import { Failure, Link, Loading, Notice, Page, Tabs, Tag } from "../parts/basics.js";
import { IdOf } from "../parts/copy.js";
import { CalendarTab } from "../parts/dag/calendar.js";
import { CodeTab } from "../parts/dag/code.js";
import { DetailsTab } from "../parts/dag/details.js";
import { QuarantineBanner } from "../parts/dag/quarantine.js";
import { RunList } from "../parts/lists/run_list.js";
import { TrendsTab } from "../parts/dag/trends.js";
import { GanttTab } from "../parts/gantt/tab.js";
import { GraphTab } from "../parts/graph/tab.js";
import { GridTab } from "../parts/grid/tab.js";
import { Schedule } from "../parts/schedule.js";
import { BackfillDialog } from "./backfills/create.js";

/** @type {Record<string, Function>} */
const VIEWS = {
  grid: GridTab,
  graph: GraphTab,
  gantt: GanttTab,
  calendar: CalendarTab,
  runs: RunList,
  trends: TrendsTab,
  code: CodeTab,
  details: DetailsTab,
};

/** @type {[key: string, label: string][]} */
const TABS = [
  ["grid", "Grid"],
  ["graph", "Graph"],
  ["gantt", "Gantt"],
  ["calendar", "Calendar"],
  ["runs", "Runs"],
  ["trends", "Trends"],
  ["code", "Code"],
  ["details", "Details"],
];

/** @param {{ dag: string }} props */
export function DagPage({ dag: dagId }) {
  /** @type {Resource<Api["DagDetails"]>} */
  const facts = useResource(
    at("dags", dagId),
    {},
    {
      kinds: ["dag", "run", "command"],
      concerns: (patch) => patch.dag_id === undefined || patch.dag_id === null || patch.dag_id === dagId,
    },
  );
  const dag = facts.data.value;
  if (!dag)
    return html`
      <${Page} title=${dagId} crumbs=${[["DAGs", "/dags"]]}>
        ${facts.error.value ? html`
          <${Failure} error=${facts.error.value} retry=${facts.reload} />
        ` : html`
          <${Loading} lines=${6} />
        `}
      <//>
    `;
  return html`<${Dag} dag=${dag} reload=${facts.reload} />`;
}

/**
 * The path of a tab, keeping the selected run and the folded groups.
 * @param {string} tab
 */
function addressOf(tab) {
  const kept = ["run", "fold"].filter((name) => query.value[name]).map((name) => [name, query.value[name]]);
  return `${here.value.path}?${new URLSearchParams([["tab", tab], ...kept])}`;
}

/** @param {{ dag: Api["DagDetails"], reload: () => void }} props */
function Dag({ dag, reload }) {
  const dagId = dag.dag_id;
  const triggering = query.value.trigger === "1" && may("operator");
  const View = VIEWS[query.value.tab] ?? GridTab;
  TABS.forEach(([tab, words], i) =>
    useKey(String(i + 1), `show the DAG's ${words} tab`, () => go(addressOf(tab))),
  );
  useKey("r", "trigger the DAG", () => may("operator") && setQuery({ trigger: "1" }));
  const actions = html`
    <label class="row soft">
      <${PauseSwitch} dag=${dag} onDone=${reload} /> ${scheduledWords(dag)}
    </label>
    ${may("operator") && scheduleWords(dag.schedule).words !== "manual" && html`
      <button class="button" onClick=${() => setQuery({ backfill: "1" })}>
        Backfill …
      </button>
    `}
    ${may("operator") && html`
      <button class="button primary" onClick=${() => setQuery({ trigger: "1" })}>
        Trigger …
      </button>
    `}
  `;
  return html`
    <${Page}
      title=${shownDag(dag)}
      crumbs=${[["DAGs", "/dags"]]}
      actions=${actions}
      lead=${html`<${Lead} dag=${dag} />`}
    >
      ${dag.quarantine && html`<${QuarantineBanner} dagId=${dagId} quarantine=${dag.quarantine} onDone=${reload} />`}
      <${Warnings} dag=${dag} />
      <${Tabs} tabs=${TABS} keep=${["run", "fold"]} />
      <${View} key=${query.value.tab ?? "grid"} dagId=${dagId} dag=${dag} />
      ${query.value.backfill === "1" && may("operator") && html`
        <${BackfillDialog}
          dagId=${dagId}
          onClose=${() => setQuery({ backfill: null })}
          onDone=${() => go(`/backfills?dag_id=${encodeURIComponent(dagId)}`)}
        />
      `}
      ${triggering && html`
        <${TriggerDialog}
          dagId=${dagId}
          onClose=${() => setQuery({ trigger: null })}
          onDone=${(run) => {
            reload();
            if (run?.run_id) setQuery({ run: run.run_id, task: null, trigger: null });
          }}
        />
      `}
    <//>
  `;
}

/** @param {{ dag: Api["DagDetails"] }} props */
const Lead = ({ dag }) => html`
  <${IdOf} id=${dag.dag_id} name=${dag.dag_display_name} />
  <${Schedule} of=${dag.schedule} timezone=${dag.schedule_timezone} />
  ${dag.next_run_after && !dag.is_paused && html`
    <span aria-hidden="true">·</span>
    <span title=${instant(dag.next_run_after)}>
      ${Date.parse(dag.next_run_after) < now.value
        ? "next run is due"
        : `next run ${relative(dag.next_run_after)}`}
    </span>
  `}
  ${dag.owner && html`
    <span aria-hidden="true">·</span>
    <span>${dag.owner}</span>
  `}
  ${dag.tags.map((tag) => html`
    <${Link} to=${`/dags?tag=${encodeURIComponent(tag)}`}>
      <${Tag}>${tag}<//>
    <//>
  `)}
  ${dag.description && html`<span class="faint">${dag.description}</span>`}
`;

/** @param {number} n */
const runs = (n) => `${n === 100 ? "100 or more" : n} ${n === 1 ? "run" : "runs"}`;

/**
 * The notice for a paused DAG: how many runs are waiting, how many are in progress.
 * @param {number} waiting
 * @param {number} active
 */
function pausedWords(waiting, active) {
  const [are, them] = waiting === 1 ? ["is", "it"] : ["are", "them"];
  const none = "This DAG is paused: no scheduled runs are created.";
  const words = waiting
    ? `This DAG is paused and ${runs(waiting)} ${are} waiting: unpause the DAG to start ${them}.`
    : none;
  const start = active === 1 ? "starts" : "start";
  return active ? `${words} ${runs(active)} in progress ${start} no further tasks.` : words;
}

/**
 * Problems of the DAG that need attention.
 * @param {{ dag: Api["DagDetails"] }} props
 */
function Warnings({ dag }) {
  /** @type {Resource<Api["Page_RunResource_"]>} */
  const queued = useResource(
    dag.is_paused ? "runs" : null,
    { dag_id: dag.dag_id, state: "queued", limit: 100 },
    { kinds: ["run"], concerns: (patch) => patch.dag_id === dag.dag_id },
  );
  const waiting = dag.is_paused ? (queued.data.value?.items.length ?? 0) : 0;
  const active = dag.is_paused ? Math.max(dag.active_runs - waiting, 0) : 0;
  return html`
    ${dag.has_import_errors && html`
      <${Notice} kind="danger">
        <span>
          The file <code>${dag.file}</code> cannot be parsed: this DAG is not scheduled until it can.${" "}
          ${dag.import_error && html`
            ${dag.import_error.line ? `Line ${dag.import_error.line}: ` : ""}
            <code>${dag.import_error.error}</code>
            ${". "}
          `}
          This is the last version that could be parsed. <${Link} to="/import-errors">View error<//>
        </span>
      <//>
    `}
    ${dag.is_stale && !dag.has_import_errors && html`
      <${Notice} kind="warn">
        No DAG file has this DAG any more: it is no longer scheduled. Its history is kept.
      <//>
    `}
    ${dag.is_paused && html`
      <${Notice} kind=${waiting ? "warn" : undefined}>${pausedWords(waiting, active)}<//>
    `}
  `;
}
