// What the lists of variables and connections share.
import { html } from "../../lib/html.js";
import { Allowed } from "../../parts/facts.js";

/** A field of a form: `draft` and `set` of the form's state. */
export function Input({ draft, set, name, words, help, ...rest }) {
  return html`
    <div class="field">
      <label for=${`s-${name}`}>${words}</label>
      <input
        class="input"
        id=${`s-${name}`}
        value=${draft[name]}
        onInput=${(e) => set({ [name]: e.target.value })}
        ...${rest}
      />
      ${help && html`<span class="help">${help}</span>`}
    </div>
  `;
}

export const acts = (item, name, open) => html`
  <${Allowed} role="admin" quiet>
    <span class="row near">
      <button class="button small" onClick=${() => open(["set", item])} aria-label=${`Replace ${name}`}>
        Replace …
      </button>
      <button
        class="button small danger"
        onClick=${() => open(["delete", item])}
        aria-label=${`Delete ${name}`}
      >
        Delete …
      </button>
    </span>
  <//>
`;
