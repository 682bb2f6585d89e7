// Form fields generated from params and their JSON schemas, each with its error below.
import { html } from "../lib/html.js";
import { kindOf, limitsOf, mayBeNull, schemaOf, valuesOf } from "../lib/schema.js";

/** @typedef {import("../lib/schema.js").FieldText} FieldText */
/** @typedef {import("../lib/schema.js").Param} Param */

/** @type {Record<string, { type: string, step?: number, inputMode?: string, autocomplete?: string }>} */
const INPUT = {
  date: { type: "date" },
  "date-time": { type: "datetime-local", step: 1 },
  time: { type: "time", step: 1 },
  number: { type: "text", inputMode: "decimal" },
  password: { type: "password", autocomplete: "new-password" },
};

/**
 * @typedef {{ id: string, kind: string, schema: import("../lib/schema.js").Schema, text: FieldText,
 *   onText: (text: FieldText) => void, wrong?: string, described?: string }} ControlProps
 * @param {ControlProps} props
 */
function Control({ id, kind, schema, text, onText, wrong, described }) {
  const common = {
    id,
    "aria-invalid": wrong ? "true" : undefined,
    "aria-describedby": described,
    /** @param {FieldEvent} e */
    onInput: (e) => onText(e.target.value),
  };
  if (kind === "boolean")
    return html`
      <input
        ...${common}
        type="checkbox"
        class="switch"
        checked=${text}
        onInput=${(e) => onText(e.target.checked)}
      />
    `;
  if (kind === "enum") {
    return html`
      <select ...${common} class="input" value=${text}>
        ${text === "" && html`<option value="">–</option>`}
        ${valuesOf(schema).map((value) => html`
          <option value=${JSON.stringify(value)}>
            ${schema.values_display?.[String(value)] ??
              (typeof value === "string" ? value : JSON.stringify(value))}
          </option>
        `)}
      </select>
    `;
  }
  if (kind === "json" || kind === "lines" || kind === "multiline") {
    return html`
      <textarea
        ...${common}
        class="input"
        rows=${Math.min(Math.max(String(text).split("\n").length, 2), 12)}
        spellcheck=${false}
        placeholder=${kind === "lines" ? "one per line" : ""}
        value=${text}
      />
    `;
  }
  return html`
    <input
      ...${common}
      ...${(INPUT[kind] ?? { type: "text" })}
      class="input"
      value=${text}
      list=${schema.examples ? `${id}-examples` : undefined}
      placeholder=${mayBeNull(schema) ? "null" : ""}
    />
  `;
}

/**
 * One param: `param` is `{json_schema, description, required, value}`, `text` the input, `wrong` the error.
 * @param {{ name: string, param: Param, text: FieldText, onText: (text: FieldText) => void, wrong?: string }} props
 */
export function Field({ name, param, text, onText, wrong }) {
  const schema = schemaOf(param);
  const kind = kindOf(schema, param.value);
  const id = `param-${name}`;
  const limits = limitsOf(schema);
  const help = [
    param.description ?? schema.description,
    kind === "json" && "JSON",
    kind === "lines" && "one per line",
    kind === "password" && "secret; empty: the default",
    limits,
  ]
    .filter(Boolean)
    .join(" · ");
  return html`
    <div class="field">
      <label for=${id}>
        ${schema.title ?? name}
        ${param.required && html`<span class="soft"> (required)</span>`}
      </label>
      <${Control}
        id=${id}
        kind=${kind}
        schema=${schema}
        text=${text}
        onText=${onText}
        wrong=${wrong}
        described=${help || wrong ? `${id}-help` : undefined}
      />
      ${schema.examples && html`
        <datalist id=${`${id}-examples`}>
          ${schema.examples.map((one) => html`
            <option value=${String(one)} />
          `)}
        </datalist>
      `}
      ${(help || wrong) && html`
        <span id=${`${id}-help`} class="stack tight">
          ${wrong && html`<span class="wrong">${wrong}</span>`}
          ${help && html`<span class="help">${help}</span>`}
        </span>
      `}
    </div>
  `;
}
