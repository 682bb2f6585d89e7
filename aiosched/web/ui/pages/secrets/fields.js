// Shared by the lists of variables and connections.
import { html } from "../../lib/html.js";
import { Allowed } from "../../parts/facts.js";

/**
 * The dialog that is open, and of which item; null for a new one.
 * @template Item
 * @typedef {["set", Item | null] | ["delete", Item]} Open
 */

/**
 * A form field; `draft` and `set` are the state of the form.
 * @param {{ draft: Record<string, string>, set: (change: Record<string, string>) => void, name: string, words: string,
 *   help?: string, [attribute: string]: unknown }} props
 */
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

/**
 * @template Item
 * @param {Item} item
 * @param {string} name
 * @param {(open: Open<Item>) => void} open
 * @returns {Content}
 */
export const itemActions = (item, name, open) => html`
  <${Allowed} role="editor" quiet>
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
