// Beside the grid: facts of the selected run or task, the headline of its `why`, and the end of its log.
import { html, useEffect, useState } from "../../lib/html.js";
import { pieces } from "../../lib/ansi.js";
import { at, call } from "../../lib/api.js";
import { operatorWords, taskName } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { path } from "../../lib/router.js";
import { runTypeWords } from "../../lib/states.js";
import { secondsBetween } from "../../lib/time.js";
import { Duration, Facts, Link, Loading, When } from "../basics.js";

const SETTLED = 250; // milliseconds: keys move faster through the grid than its cells are looked up
const TAIL = 4_000; // bytes of the end of a log
const LINES = 12;
const EXPLAINED = [
  "queued",
  "failed",
  "scheduled",
  "deferred",
  "up_for_retry",
  "up_for_reschedule",
  "upstream_failed",
  "skipped",
];

/**
 * `task` is that of a task that is not mapped; without it, the run is shown.
 * @param {{ dagId: string, run: Api["RunResource"], task: string | undefined }} props
 */
export function Panel({ dagId, run, task }) {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    const due = setTimeout(() => setSettled(true), SETTLED);
    return () => clearTimeout(due);
  }, []); // the panel of another place is another one: see its key
  if (!task) return html`<${RunPanel} run=${run} settled=${settled} />`;
  if (!settled) return html`<${Loading} lines=${4} />`;
  return html`<${TaskPanel} dagId=${dagId} run=${run} task=${task} />`;
}

/** @param {{ run: Api["RunResource"], settled: boolean }} props */
const RunPanel = ({ run, settled }) => html`
  <div class="stack tight">
    ${settled && EXPLAINED.includes(run.state) && html`
      <${Headline} of=${at("dags", run.dag_id, "runs", run.run_id)} />
    `}
    <${Facts}
      rows=${[
        ["Type", runTypeWords(run.run_type)],
        ["Date", html`<${When} at=${run.logical_date ?? run.run_after} />`],
        ["Started", html`<${When} at=${run.start_date} />`],
        ["Ended", run.end_date && html`<${When} at=${run.end_date} />`],
        ["Duration", html`<${Duration} seconds=${run.seconds ?? secondsBetween(run.start_date)} />`],
        ["Version", run.version],
        ["Note", run.note],
      ]}
    />
  </div>
`;

/** @param {{ dagId: string, run: Api["RunResource"], task: string }} props */
function TaskPanel({ dagId, run, task }) {
  const of = at("dags", dagId, "runs", run.run_id, "tasks", task);
  /** @type {Resource<Api["TaskDetails"]>} */
  const found = useResource(of, {}, { kinds: ["task"], concerns: (patch) => patch.run === run.key });
  const one = found.data.value;
  if (found.error.value) return html`<p class="soft">${found.error.value.message}</p>`;
  if (!one) return html`<${Loading} lines=${4} />`;
  const tried = one.logs.includes(one.try_number);
  return html`
    <div class="stack tight">
      ${EXPLAINED.includes(one.state) && html`<${Headline} of=${of} />`}
      <${Facts}
        rows=${[
          ["Operator", operatorWords(one.operator)],
          ["Try", one.try_number > 0 && `${one.try_number} of ${one.max_tries + 1}`],
          ["Started", html`<${When} at=${one.start_date} />`],
          ["Duration", html`<${Duration} seconds=${secondsBetween(one.start_date, one.end_date)} />`],
          ["Pool", html`<${Link} to=${`/pools?pool=${encodeURIComponent(one.pool)}`}>${one.pool}<//>`],
          ["Reason", one.state !== "failed" && one.reason],
          ["Note", one.note],
        ]}
      />
      ${tried && html`<${LogEnd} of=${`${of}/logs/${one.try_number}`} state=${one.state} />`}
      <${Link} to=${path("dags", dagId, "runs", run.run_id, "tasks", task)}>
        ${tried ? "View the whole log" : "View task"}
      <//>
    </div>
  `;
}

/**
 * The first failed instance of a mapped task.
 * @param {{ dagId: string, run: Api["RunResource"], task: string }} props
 */
export function FailedInstance({ dagId, run, task }) {
  /** @type {Resource<Api["Page_TaskInstanceResource_"]>} */
  const failed = useResource(
    at("dags", dagId, "runs", run.run_id, "tasks"),
    { task_id: task, state: "failed", limit: 1 },
    { kinds: ["task"], concerns: (patch) => patch.run === run.key },
  );
  const [first] = failed.data.value?.items ?? [];
  if (!first) return null;
  const name = taskName(first);
  return html`
    <b>${name}</b>
    <${Panel} key=${name} dagId=${dagId} run=${run} task=${name} />
  `;
}

/**
 * Why it waits or failed, in one sentence.
 * @param {{ of: string }} props
 */
function Headline({ of }) {
  /** @type {Resource<Api["Why"]>} */
  const why = useResource(`${of}/why`, {}, { kinds: ["task", "run", "pool"] });
  return why.data.value ? html`<p class="headline">${why.data.value.summary}</p>` : null;
}

/**
 * The last lines of a log; read again when the `state` of its task changes.
 * @param {{ of: string, state: string }} props
 */
function LogEnd({ of, state }) {
  const [text, setText] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    const options = {
      params: { tail: TAIL },
      headers: { Accept: "text/plain" },
      raw: true,
      signal: abort.signal,
    };
    call("GET", of, options)
      .then((answer) => answer.text())
      .then(setText)
      .catch(() => setText("")); // the link below leads to the log and to what is wrong with it
    return () => abort.abort();
  }, [of, state]);
  const plain = pieces(text.trimEnd()).map((piece) => piece.text);
  const lines = plain.join("").split("\n").slice(-LINES).join("\n");
  return lines ? html`
    <pre class="logend" tabindex="0" aria-label="End of the log">
      ${lines}
    </pre>
  ` : null;
}
