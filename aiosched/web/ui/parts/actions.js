// The actions on DAGs, runs and task instances: each shows what it touches and the command line that does the same.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { at, get, may, patch, post, useResource } from "../lib/api.js";
import { taskName } from "../lib/names.js";
import { kindOf, toText, toValue, utc } from "../lib/schema.js";
import { byState, stateOf } from "../lib/states.js";
import { Loading, Notice, Shown, State } from "./basics.js";
import { Confirm, Dialog, commandLine, tellDone, toast } from "./dialog.js";
import { objectOf } from "./facts.js";
import { Field } from "./schema_form.js";

// ---- pause ----

/** A switch that is on while the DAG runs; `dag` needs `dag_id` and `is_paused`. */
export function PauseSwitch({ dag, onDone }) {
  const [wished, setWished] = useState(null);
  useEffect(() => setWished(null), [dag.is_paused]);
  const change = async (event) => {
    const runs = event.target.checked;
    setWished(runs);
    try {
      const answer = await patch(at("dags", dag.dag_id), { is_paused: !runs });
      tellDone(
        answer,
        runs ? `${dag.dag_id} runs again.` : `${dag.dag_id} is paused: it starts nothing more, what runs goes on.`,
      );
      onDone?.(answer);
    } catch (error) {
      toast(error.message, "danger");
      setWished(null);
    }
  };
  const words = dag.is_paused ? `${dag.dag_id} is paused` : `${dag.dag_id} is on`;
  return html`
    <input
      type="checkbox"
      class="switch"
      role="switch"
      checked=${wished ?? !dag.is_paused}
      disabled=${!may("operator")}
      aria-label=${words}
      title=${may("operator") ? words : `${words} (changing it needs the role operator)`}
      onChange=${change}
    />
  `;
}

// ---- trigger ----

/** Make a run of `dagId`: its params as fields, the logical date, the run id. `onDone(run)` when it exists. */
export function TriggerDialog({ dagId, onClose, onDone }) {
  const read = useMemo(
    () => async () => {
      const dag = await get(at("dags", dagId));
      const version = dag.version === null ? null : await get(at("dags", dagId, "versions", dag.version));
      return { dag, params: version?.spec.params ?? {} };
    },
    [dagId],
  );
  const [facts, setFacts] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    read().then(setFacts, setError);
  }, [read]);
  if (facts) return html`<${TriggerForm} dag=${facts.dag} params=${facts.params} onClose=${onClose} onDone=${onDone} />`;
  return html`
    <${Dialog} title=${`Trigger ${dagId}`} onClose=${onClose}>
      ${error ? html`<${Notice} kind="danger">${error.message}<//>` : html`<${Loading} />`}
    <//>
  `;
}

function TriggerForm({ dag, params, onClose, onDone }) {
  const names = Object.keys(params);
  const initial = () =>
    Object.fromEntries(
      names.map((name) => [
        name,
        toText(kindOf(params[name].json_schema ?? {}, params[name].value), params[name].value),
      ]),
    );
  const [texts, setTexts] = useState(initial);
  const [run, setRun] = useState({ logical_date: "", run_id: "", more: "", unpause: dag.is_paused });
  const [told, setTold] = useState({}); // errors of the server, by field, until the field changes
  const { conf, wrong } = confOf(params, texts, run.more);
  const errors = { ...told, ...wrong };
  const change = (name, text) => {
    setTexts({ ...texts, [name]: text });
    setTold({ ...told, [`conf.${name}`]: undefined });
  };
  const set = (changes) => {
    setRun({ ...run, ...changes });
    setTold({ ...told, logical_date: undefined, run_id: undefined });
  };
  const act = async () => {
    const body = {
      conf,
      unpause: run.unpause,
      ...(run.logical_date && { logical_date: utc(run.logical_date) }),
      ...(run.run_id && { run_id: run.run_id }),
    };
    try {
      return await post(at("dags", dag.dag_id, "runs"), body);
    } catch (problem) {
      setTold(
        Object.fromEntries(
          problem.fields?.map(({ where, message }) => [where.replace(/^body\./, ""), message]) ?? [],
        ),
      );
      throw problem;
    }
  };
  const given = Object.entries(conf).flatMap(([name, value]) => [
    "-p",
    `${name}=${typeof value === "string" && !looksLikeJson(value) ? value : JSON.stringify(value)}`,
  ]);
  const cli = commandLine(
    "dags",
    "trigger",
    dag.dag_id,
    ...(run.logical_date ? ["-e", utc(run.logical_date)] : []),
    ...(run.run_id ? ["-r", run.run_id] : []),
    ...given,
    run.unpause && "--unpause",
  );
  return html`
    <${Confirm}
      title=${`Trigger ${dag.dag_id}`}
      words="Trigger"
      act=${act}
      done="The run exists."
      cli=${cli}
      disabled=${Object.values(wrong).some(Boolean) || (dag.is_paused && !run.unpause)}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${names.map((name) => html`
        <${Field}
          key=${name}
          name=${name}
          param=${params[name]}
          text=${texts[name]}
          onText=${(text) => change(name, text)}
          wrong=${errors[`conf.${name}`]}
        />
      `)}
      <div class="columns">
        <div class="field">
          <label for="logical-date">Logical date (UTC)</label>
          <input
            class="input"
            id="logical-date"
            type="datetime-local"
            step="1"
            value=${run.logical_date}
            onInput=${(e) => set({ logical_date: e.target.value })}
          />
          ${errors.logical_date ? html`
            <span class="wrong">${errors.logical_date}</span>
          ` : html`
            <span class="help">Empty: the run has no data interval</span>
          `}
        </div>
        <div class="field">
          <label for="run-id">Run id</label>
          <input
            class="input"
            id="run-id"
            maxlength="250"
            value=${run.run_id}
            onInput=${(e) => set({ run_id: e.target.value })}
          />
          ${errors.run_id ? html`
            <span class="wrong">${errors.run_id}</span>
          ` : html`
            <span class="help">Empty: made from the time</span>
          `}
        </div>
      </div>
      <details class="more">
        <summary>${names.length ? "More values (conf)" : "Values (conf)"}</summary>
        <div class="field">
          <textarea
            class="input"
            rows="3"
            aria-label="More values as a JSON object"
            spellcheck=${false}
            placeholder="{}"
            value=${run.more}
            onInput=${(e) => setRun({ ...run, more: e.target.value })}
          />
          ${wrong.conf && html`<span class="wrong">${wrong.conf}</span>`}
        </div>
      </details>
      ${dag.is_paused && html`
        <label class="row">
          <input
            type="checkbox"
            class="switch"
            checked=${run.unpause}
            onChange=${(e) => setRun({ ...run, unpause: e.target.checked })}
          />${" "}
          Unpause the DAG too: it is paused, so the run would wait
        </label>
      `}
    <//>
  `;
}

const looksLikeJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** The values that differ from the defaults, and what is wrong with the others. */
function confOf(params, texts, more) {
  const { value, wrong: noObject } = objectOf(more);
  const conf = { ...value };
  const wrong = noObject ? { conf: noObject } : {};
  for (const [name, param] of Object.entries(params)) {
    const schema = param.json_schema ?? {};
    const kind = kindOf(schema, param.value);
    if (!param.required && texts[name] === toText(kind, param.value)) continue;
    try {
      conf[name] = toValue(kind, texts[name], schema);
    } catch (error) {
      wrong[`conf.${name}`] = error.message;
    }
  }
  return { conf, wrong };
}

// ---- what an action on task instances is about ----

const OPTIONS = [
  // name, words, flag, whether for whole runs, too
  ["only_failed", "Only failed ones", "--only-failed", true],
  ["upstream", "Also what is before them", "--upstream"],
  ["downstream", "Also what is behind them", "--downstream"],
  ["past", "Also in earlier runs", "--past"],
  ["future", "Also in later runs", "--future"],
  ["newest_version", "With the DAG as it is now", "--newest-version", true],
  ["prevent_running", "Not if some are running", "--prevent-running", true],
];
const flagsOf = (options) => OPTIONS.filter(([name]) => options[name]).map(([, , flag]) => flag);

/** Options to tick; `usable` are those that make sense here. */
const Options = ({ usable, options, setOptions }) => html`
  <div class="row wide">
    ${usable.map(([name, words]) => html`
      <label class="row">
        <input
          type="checkbox"
          checked=${!!options[name]}
          onChange=${(e) => setOptions({ ...options, [name]: e.target.checked })}
        />${" "}
        ${words}
      </label>
    `)}
  </div>
`;

/** The answer to the dry run of an action as `{preview, error}`: none of both until it is there. `address` null: nothing to ask. */
function useDryRun(address, body) {
  const [found, setFound] = useState({});
  const wish = address && JSON.stringify([address, body]);
  useEffect(() => {
    if (!wish) return undefined;
    const abort = new AbortController();
    post(address, { ...body, dry_run: true }, { signal: abort.signal }).then(
      (preview) => setFound({ wish, preview }),
      (error) => {
        if (error.name !== "AbortError") setFound({ wish, error });
      },
    );
    return () => abort.abort();
  }, [wish]);
  return found.wish === wish ? found : {}; // never that of another wish
}

/** How many instances of which states: `states` are counts. */
const Counts = ({ states }) => html`
  <span class="row">
    ${byState(states).map(([name, count]) => html`
      <${State} name=${name} count=${count} />
    `)}
  </span>
`;

/** What an action would touch; `none` tells that it is nothing, `becomes` what happens to it, `label` what the list is of. */
function Preview({ preview, error, none, becomes, label }) {
  if (error) return html`<${Notice} kind="danger">${error.message}<//>`;
  if (!preview) return html`<${Loading} lines=${3} />`;
  if (preview.accepted)
    return html`
      <${Notice} kind="warn">
        No scheduler answers now, so there is no preview. The request would wait until one does.
      <//>
    `;
  if (!preview.count) return html`<${Notice}>${none}<//>`;
  const shown = preview.instances.slice(0, 100);
  return html`
    <div class="stack tight" role="status">
      <b>
        ${preview.count} ${preview.count === 1 ? "instance" : "instances"} in ${preview.runs.length}${" "}
        ${preview.runs.length === 1 ? "run" : "runs"} ${becomes}
      </b>
      <${Counts} states=${preview.states} />
      <div class="scroll preview" tabindex="0" role="group" aria-label=${label}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Run</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            ${shown.map((one) => html`
              <tr key=${`${one.run_id} ${one.task_id} ${one.map_index}`}>
                <td>${taskName(one)}</td>
                <td class="clip">${one.run_id}</td>
                <td>
                  <${State} name=${one.state ?? "none"} />
                </td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      ${preview.count > shown.length && html`<span class="faint">and ${preview.count - shown.length} more</span>`}
    </div>
  `;
}

// ---- clear ----

const pattern = (ids) => `^(${ids.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})$`;

function clearLine(dagId, { run_ids, task_ids, map_index }, options) {
  const flags = flagsOf(options);
  if (!task_ids && run_ids?.length === 1) return commandLine("runs", "clear", dagId, run_ids[0], ...flags);
  return commandLine(
    "tasks",
    "clear",
    dagId,
    ...(run_ids ?? []).flatMap((id) => ["--run", id]),
    ...(task_ids ? ["--task", pattern(task_ids)] : []),
    ...(map_index !== undefined && map_index !== null ? ["--map-index", map_index] : []),
    ...flags,
  );
}

/** Let instances run again. `selection` is `{run_ids, task_ids, map_index}`: without tasks whole runs; `options` are the ones that are on at first. */
export function ClearDialog({ dagId, selection, options: initial = {}, onClose, onDone }) {
  const [options, setOptions] = useState(initial);
  const body = { ...selection, ...options };
  const { preview, error } = useDryRun(at("dags", dagId, "clear"), body);
  const what = selection.task_ids
    ? selection.task_ids.length === 1
      ? selection.task_ids[0]
      : `${selection.task_ids.length} tasks`
    : selection.run_ids?.length === 1
      ? "the run"
      : "runs";
  const usable = OPTIONS.filter(([, , , ofRuns]) => selection.task_ids || ofRuns);
  return html`
    <${Confirm}
      title=${`Clear ${what}`}
      words=${preview?.count ? `Clear ${preview.count}` : "Clear"}
      act=${() => post(at("dags", dagId, "clear"), body)}
      done="Cleared: they run again."
      cli=${clearLine(dagId, selection, options)}
      disabled=${!preview || preview.count === 0}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${Options} usable=${usable} options=${options} setOptions=${setOptions} />
      <${Preview}
        preview=${preview}
        error=${error}
        none="Nothing of this can be cleared."
        becomes="will run again"
        label="Instances that are cleared"
      />
    <//>
  `;
}

// ---- mark ----

const MARKS = OPTIONS.filter(([name]) => ["upstream", "downstream", "past", "future"].includes(name));

/** Set the state of a run (without `taskId`) or of a task instance; without `mapIndex` of all instances of the task. */
export function MarkDialog({ dagId, runId, taskId, mapIndex, onClose, onDone }) {
  const states = taskId ? ["success", "failed", "skipped"] : ["success", "failed", "queued"];
  const [state, setState] = useState("success");
  const [options, setOptions] = useState({});
  const mapped = mapIndex !== undefined && mapIndex !== null && mapIndex >= 0;
  const run = useResource(taskId ? null : at("dags", dagId, "runs", runId));
  const address = taskId
    ? at("dags", dagId, "runs", runId, "tasks", taskId, "mark")
    : at("dags", dagId, "runs", runId, "mark");
  const body = { state, ...(taskId && mapped && { map_index: mapIndex }), ...options };
  const { preview, error } = useDryRun(taskId ? address : null, body);
  const cli = taskId
    ? commandLine(
        "tasks",
        "mark",
        dagId,
        runId,
        taskId,
        state,
        ...(mapped ? ["--map-index", mapIndex] : []),
        ...flagsOf(options),
      )
    : commandLine("runs", "mark", dagId, runId, state);
  const words =
    state === "queued"
      ? "The run goes on: what has not run yet in it runs."
      : taskId
        ? "What failed behind it for this reason runs again."
        : "All that is unfinished in the run gets this state, too; what runs is stopped.";
  return html`
    <${Confirm}
      title=${taskId ? `Mark ${taskName({ task_id: taskId, map_index: mapIndex })}` : "Mark the run"}
      words=${`Mark ${stateOf(state).label}`}
      act=${() => post(address, body)}
      done=${`Marked ${stateOf(state).label}.`}
      cli=${cli}
      disabled=${Boolean(taskId) && (!preview || preview.count === 0)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <div class="field">
        <label for="mark-state">State</label>
        <select class="input" id="mark-state" value=${state} onChange=${(e) => setState(e.target.value)}>
          ${states.map((one) => html`
            <option value=${one}>${stateOf(one).label}</option>
          `)}
        </select>
      </div>
      <p class="soft">
        In run <code>${runId}</code>. ${words}
      </p>
      ${taskId ? html`
          <${Options} usable=${MARKS} options=${options} setOptions=${setOptions} />
          <${Preview}
            preview=${preview}
            error=${error}
            none="Nothing of this can be marked."
            becomes=${`will be ${stateOf(state).label}`}
            label="Instances that are marked"
          />
      ` : html`
        <${Shown} of=${run} lines=${1}>
          ${(facts) => html`<${Counts} states=${facts.tasks} />`}
        <//>
      `}
    <//>
  `;
}
