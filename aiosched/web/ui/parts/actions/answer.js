// Answer what a task asks: choose options, fill in params.
import { html } from "../../lib/html.js";
import { at, post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { path } from "../../lib/router.js";
import { Link } from "../basics.js";
import { Markdown } from "../markdown.js";
import { Confirm, commandLine } from "../dialog.js";
import { Field } from "../schema_form.js";
import { confOf, flagsOf, secretsOf, textsOf } from "./conf.js";

/** @typedef {import("../../lib/schema.js").FieldText} FieldText */
/** @typedef {import("../../lib/schema.js").Param} Param */

/** @param {DialogProps & { input: Api["InputResource"] }} props */
export function AnswerDialog({ input, onClose, onDone }) {
  const params = /** @type {Record<string, Param>} */ (/** @type {unknown} */ (input.params));
  const { dag_id: dag, run_id: run, task_id: task, map_index: index } = input;
  const [draft, setDraft] = useDraft(
    ["answer", dag, run, task, index],
    () => ({
      options: input.defaults ?? (input.options.length === 1 ? input.options : []),
      texts: textsOf(params),
    }),
    secretsOf(params),
  );
  const { options, texts } = draft;
  const { conf, wrong } = confOf(params, texts, "");
  const mapped = index >= 0 ? { map_index: index } : {};
  return html`
    <${Confirm}
      title=${input.subject}
      submitLabel="Answer"
      act=${() =>
        post(at("dags", dag, "runs", run, "tasks", task, "answer"), { options, params: conf, ...mapped })
      }
      done=${`${task} continues.`}
      cli=${answerLine(input, options, flagsOf(params, conf))}
      disabled=${!options.length || Object.values(wrong).some(Boolean)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p class="soft">
        <b>${task}</b> of${" "}
        <${Link} to=${path("dags", dag, "runs", run)}>
          ${dag}, ${run}
        <//>${" "}
        asks:
      </p>
      ${input.body && html`<${Markdown} text=${input.body} />`}
      <${Options}
        input=${input}
        chosen=${options}
        choose=${(/** @type {string[]} */ chosen) => setDraft({ ...draft, options: chosen })}
      />
      ${Object.keys(params).map((name) => html`
        <${Field}
          key=${name}
          name=${name}
          param=${params[name]}
          text=${texts[name]}
          onText=${(/** @type {FieldText} */ text) => setDraft({ ...draft, texts: { ...texts, [name]: text } })}
          wrong=${wrong[`conf.${name}`]}
        />
      `)}
    <//>
  `;
}

/** @param {{ input: Api["InputResource"], chosen: string[], choose: (options: string[]) => void }} props */
function Options({ input, chosen, choose }) {
  /** @param {string} option */
  const turn = (option) =>
    chosen.includes(option) ? chosen.filter((other) => other !== option) : [...chosen, option];
  return html`
    <fieldset class="stack tight">
      <legend>${input.multiple ? "Choose one or more" : "Choose one"}</legend>
      ${input.options.map((option) => html`
        <label class="row near" key=${option}>
          <input
            type=${input.multiple ? "checkbox" : "radio"}
            name="option"
            checked=${chosen.includes(option)}
            onChange=${() => choose(input.multiple ? turn(option) : [option])}
          />
          ${option}
        </label>
      `)}
    </fieldset>
  `;
}

/**
 * @param {Api["InputResource"]} input
 * @param {string[]} options
 * @param {string[]} flags those of the params
 */
function answerLine(input, options, flags) {
  const index = input.map_index >= 0 ? ["--map-index", input.map_index] : [];
  return commandLine(
    "inputs answer",
    [input.dag_id, input.run_id, input.task_id, ...(options.length ? options : ["OPTION"])],
    ...flags,
    ...index,
  );
}
