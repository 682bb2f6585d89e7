// Make a run of a DAG: its params as fields, the logical date, the run id.
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { at, get, post } from "../../lib/api.js";
import { kindOf, toText, utc } from "../../lib/schema.js";
import { confOf, looksLikeJson } from "./conf.js";
import { Loading, Notice } from "../basics.js";
import { Confirm, Dialog, commandLine } from "../dialog.js";
import { Field } from "../schema_form.js";

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
