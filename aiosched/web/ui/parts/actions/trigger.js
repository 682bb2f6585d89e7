// Trigger a run of a DAG: params, logical date, run id.
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { at, get, post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { utc } from "../../lib/schema.js";
import { Loading, Notice } from "../basics.js";
import { Confirm, Dialog, commandLine } from "../dialog.js";
import { InputField } from "../form.js";
import { Field } from "../schema_form.js";
import { confOf, flagsOf, secretsOf, textsOf } from "./conf.js";

/** @typedef {import("../../lib/schema.js").FieldText} FieldText */
/** @typedef {import("../../lib/schema.js").Param} Param */
/** @typedef {{ logical_date: string, run_id: string, more: string, unpause: boolean }} RunDraft */

/**
 * The form that triggers a run of `dagId`; `onDone(run)` is called once it is created.
 * @param {DialogProps & { dagId: string }} props
 */
export function TriggerDialog({ dagId, onClose, onDone }) {
  const read = useMemo(
    () => async () => {
      const dag = await get(at("dags", dagId));
      const version = dag.version === null ? null : await get(at("dags", dagId, "versions", dag.version));
      return { dag, params: version?.spec.params ?? {} };
    },
    [dagId],
  );
  const [facts, setFacts] = useState(
    /** @type {{ dag: Api["DagDetails"], params: Record<string, Param> } | null} */ (null),
  );
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  useEffect(() => {
    read().then(setFacts, setError);
  }, [read]);
  if (facts) return html`<${TriggerForm} ...${facts} onClose=${onClose} onDone=${onDone} />`;
  return html`
    <${Dialog} title=${`Trigger ${dagId}`} onClose=${onClose}>
      ${error ? html`<${Notice} kind="danger">${error.message}<//>` : html`<${Loading} />`}
    <//>
  `;
}

/**
 * What is entered: `texts` of the params, the rest as `run`, the `conf` of both, what is `wrong` with it, and all
 * `errors` by field, also those of the server. `act` creates the run.
 * @param {Api["DagResource"]} dag
 * @param {Record<string, Param>} params
 */
function useRunDraft(dag, params) {
  const [{ texts, run }, setDraft] = useDraft(
    ["trigger", dag.dag_id],
    () => ({ texts: textsOf(params), run: { logical_date: "", run_id: "", more: "", unpause: dag.is_paused } }),
    secretsOf(params),
  );
  const [serverErrors, setServerErrors] = useState(/** @type {Record<string, string | undefined>} */ ({})); // by field
  const { conf, wrong } = confOf(params, texts, run.more);
  const errors = { ...serverErrors, ...wrong };
  /**
   * @param {string} name
   * @param {FieldText} text
   */
  const change = (name, text) => {
    setDraft({ texts: { ...texts, [name]: text }, run });
    setServerErrors({ ...serverErrors, [`conf.${name}`]: undefined });
  };
  /** @param {Partial<RunDraft>} changes */
  const setRun = (changes) => setDraft({ texts, run: { ...run, ...changes } });
  /** @param {Partial<RunDraft>} changes */
  const set = (changes) => {
    setRun(changes);
    setServerErrors({ ...serverErrors, logical_date: undefined, run_id: undefined });
  };
  const act = async () => {
    try {
      return await post(at("dags", dag.dag_id, "runs"), bodyOf(run, conf));
    } catch (problem) {
      /** @type {Api["Field"][]} */
      const fields = problem.fields ?? [];
      setServerErrors(
        Object.fromEntries(fields.map(({ where, message }) => [where.replace(/^body\./, ""), message])),
      );
      throw problem;
    }
  };
  return { texts, run, conf, wrong, errors, change, set, setRun, act };
}

/** @param {DialogProps & { dag: Api["DagResource"], params: Record<string, Param> }} props */
function TriggerForm({ dag, params, onClose, onDone }) {
  const { texts, run, conf, wrong, errors, change, set, setRun, act } = useRunDraft(dag, params);
  const names = Object.keys(params);
  const invalid = Object.values(wrong).some(Boolean) || (dag.is_paused && !run.unpause);
  return html`
    <${Confirm}
      title=${`Trigger ${dag.dag_id}`}
      submitLabel="Trigger"
      act=${act}
      done="Run created."
      cli=${triggerLine(dag, run, flagsOf(params, conf))}
      disabled=${invalid}
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
      <${RunFields} run=${run} set=${set} errors=${errors} />
      <${MoreConf}
        words=${names.length ? "More conf" : "Conf"}
        text=${run.more}
        onText=${(more) => setRun({ more })}
        wrong=${wrong.conf}
      />
      ${dag.is_paused && html`
        <label class="row">
          <input
            type="checkbox"
            class="switch"
            checked=${run.unpause}
            onChange=${(e) => setRun({ unpause: e.target.checked })}
          />${" "}
          Also unpause the DAG; otherwise the run waits
        </label>
      `}
    <//>
  `;
}

/**
 * @param {{ run: RunDraft, set: (changes: Partial<RunDraft>) => void,
 *   errors: Record<string, string | undefined> }} props
 */
function RunFields({ run, set, errors }) {
  return html`
    <div class="columns">
      <${InputField}
        id="logical-date"
        label="Logical date (UTC)"
        type="datetime-local"
        step="1"
        value=${run.logical_date}
        onText=${(text) => set({ logical_date: text })}
        wrong=${errors.logical_date}
        help="Leave empty for no data interval"
      />
      <${InputField}
        id="run-id"
        label="Run id"
        maxlength="250"
        value=${run.run_id}
        onText=${(text) => set({ run_id: text })}
        wrong=${errors.run_id}
        help="Leave empty to generate one"
      />
    </div>
  `;
}

/**
 * A JSON object with conf values that are not params of the DAG.
 * @param {{ words: string, text: string, onText: (text: string) => void, wrong?: string }} props
 */
function MoreConf({ words, text, onText, wrong }) {
  return html`
    <details class="more">
      <summary>${words}</summary>
      <div class="field">
        <textarea
          class="input"
          rows="3"
          aria-label="Configuration (conf) as a JSON object"
          spellcheck=${false}
          placeholder="{}"
          value=${text}
          onInput=${(e) => onText(e.target.value)}
        />
        ${wrong && html`<span class="wrong">${wrong}</span>`}
      </div>
    </details>
  `;
}

/**
 * @param {RunDraft} draft
 * @param {Record<string, unknown>} conf
 * @returns {Api["NewRun"]}
 */
const bodyOf = ({ logical_date, run_id, unpause }, conf) => ({
  conf,
  unpause,
  priority: 0,
  ...(logical_date && { logical_date: utc(logical_date) }),
  ...(run_id && { run_id }),
});

/**
 * @param {Api["DagResource"]} dag
 * @param {RunDraft} draft
 * @param {string[]} flags those of the conf
 */
function triggerLine(dag, { logical_date, run_id, unpause }, flags) {
  return commandLine(
    "dags trigger",
    [dag.dag_id],
    ...(logical_date ? ["-e", utc(logical_date)] : []),
    ...(run_id ? ["-r", run_id] : []),
    ...flags,
    unpause && "--unpause",
  );
}
