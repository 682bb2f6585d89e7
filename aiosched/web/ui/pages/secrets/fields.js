// Shared by the lists of variables and connections.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { Link, When } from "../../parts/basics.js";
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
 * @param {"Edit" | "Replace"} [verb]
 * @returns {Content}
 */
export const itemActions = (item, name, open, verb = "Replace") => html`
  <${Allowed} role="editor" quiet>
    <span class="row near">
      <button class="button small" onClick=${() => open(["set", item])} aria-label=${`${verb} ${name}`}>
        ${verb} …
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

/**
 * When something was changed last and by whom; for administrators with a link to all of its changes.
 * @param {{ item: { created_at: string, changed_at: string | null, changed_by: string | null },
 *   kind: "variable" | "connection", name: string }} props
 */
export const Changed = ({ item, kind, name }) => html`
  <${When} at=${item.changed_at ?? item.created_at} ago />
  ${item.changed_by && html`<span class="soft"> by ${item.changed_by}</span>`}
  ${may("admin") && html`
    ${" "}
    <${Link}
      to=${`/audit?${new URLSearchParams({ about: kind, object: name })}`}
      aria-label=${`History of ${name}`}
    >
      History
    <//>
  `}
`;
