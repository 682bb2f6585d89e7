// Form fields: a label, a control, and an error or help text below.
import { html } from "../lib/html.js";

/**
 * An input; other props are attributes of the control.
 * @param {{ id: string, label: string, value: string | number, onText: (text: string) => void, help?: string,
 *   wrong?: string, [attribute: string]: unknown }} props
 */
export function InputField({ id, label, value, onText, help, wrong, ...rest }) {
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <input class="input" id=${id} value=${value} onInput=${(e) => onText(e.target.value)} ...${rest} />
      <${Below} wrong=${wrong} help=${help} />
    </div>
  `;
}

/** @param {{ id: string, label: string, value: string, options: Choice[], onText: (text: string) => void }} props */
export function SelectField({ id, label, value, options, onText }) {
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <select class="input" id=${id} value=${value} onChange=${(e) => onText(e.target.value)}>
        ${options.map(([key, words]) => html`
          <option value=${key}>${words}</option>
        `)}
      </select>
    </div>
  `;
}

/** @param {{ wrong?: string, help?: string }} props */
function Below({ wrong, help }) {
  if (wrong) return html`<span class="wrong">${wrong}</span>`;
  return help ? html`<span class="help">${help}</span>` : null;
}

/**
 * A filter select; `any` is the label of the empty option.
 * @param {{ label: string, value: string | undefined, any: string, options: Choice[],
 *   onText: (text: string) => void }} props
 */
export function Filter({ label, value, any, options, onText }) {
  return html`
    <select class="input" aria-label=${label} value=${value ?? ""} onChange=${(e) => onText(e.target.value)}>
      <option value="">${any}</option>
      ${options.map(([key, words]) => html`
        <option value=${key}>${words}</option>
      `)}
    </select>
  `;
}

/**
 * A search field; `field` is a ref to the control.
 * @param {{ label: string, words: string, value: string | undefined, onText: (text: string) => void,
 *   field?: Ref<HTMLInputElement | null> }} props
 */
export function SearchField({ label, words, value, onText, field }) {
  return html`
    <input
      class="input"
      ref=${field}
      type="search"
      placeholder=${words}
      aria-label=${label}
      value=${value ?? ""}
      onInput=${(e) => onText(e.target.value)}
    />
  `;
}
