// What the pages of runs and operations share: who may act, notes, bars of parts, folded text, a list of choices.
import { classes, html, useEffect, useRef, useState } from "../lib/html.js";
import { may, me, put } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { CopyButton } from "./copy.js";
import { Confirm } from "./dialog.js";

/** Its children for those who have `role`; others read why there is nothing to press. */
export function Allowed({ role = "operator", children, quiet = false }) {
  if (may(role)) return children;
  return quiet ? null : html`
    <span class="faint" title=${`You are ${me.value?.name}, ${me.value?.role}.`}>
      Read only: acting needs the role ${role}
    </span>
  `;
}

/** A note that can be written; `path` of the API, `params` such as `map_index`. */
export function Note({ path, params, text, onDone }) {
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState("");
  const edit = () => {
    setDraft(text || "");
    setOpen(true);
  };
  const suffix = params?.map_index >= 0 ? `?map_index=${params.map_index}` : "";
  return html`
    <span class="row near">
      ${text ? html`<span class="note">${text}</span>` : html`<span class="faint">none</span>`}
      <${Allowed} quiet>
        <button class="button small quiet" onClick=${edit}>
          ${text ? "Edit note" : "Write a note"}
        </button>
      <//>
      ${open && html`
        <${Confirm}
          title="Note"
          words="Save"
          act=${() => put(path + suffix, { note: draft })}
          done="The note is saved."
          onClose=${() => setOpen(false)}
          onDone=${onDone}
        >
          <div class="field">
            <label for="note">What others should know</label>
            <textarea
              class="input"
              id="note"
              rows="4"
              maxlength="1000"
              value=${draft}
              onInput=${(e) => setDraft(e.target.value)}
            />
            <span class="help">An empty note removes it.</span>
          </div>
        <//>
      `}
    </span>
  `;
}

/** A bar of parts `[{share, name, words}]`; `share` from 0 to 1, `name` a state or a colour's name. */
export function Parts({ parts, label }) {
  return html`
    <span class="parts" role="img" aria-label=${label}>
      ${parts
        .filter((p) => p.share > 0)
        .map((p) => html`
          <i style=${{ width: `${p.share * 100}%`, background: `var(--${p.name})` }} title=${p.words} />
        `)}
    </span>
  `;
}

/** Text that can be long: folded, with a button that copies it. */
export function Folded({ title, text, open = false }) {
  return html`
    <details class="folded" open=${open}>
      <summary>${title}</summary>
      <${Text} text=${text} />
    </details>
  `;
}

/** Text as it is, with a button that copies it. */
export const Text = ({ text }) => html`
  <div class="text">
    <${CopyButton} text=${text} />
    <pre tabindex="0">${text}</pre>
  </div>
`;

/** Choices of a filter in the query string: `options` are `[value, words, count]`; one or none is on. */
export function Choices({ name, options, label }) {
  const now = query.value[name] || "";
  return html`
    <div class="choices row" role="group" aria-label=${label}>
      ${options.map(([value, words]) => html`
        <button
          type="button"
          class=${classes("choice", value === now && "on")}
          aria-pressed=${value === now}
          onClick=${() => setQuery({ [name]: value === now ? null : value })}
        >
          ${words}
        </button>
      `)}
    </div>
  `;
}

/** A field of a filter that lives in the query string; written after a moment without typing. */
export function FilterField({ name, words, ...rest }) {
  const due = useRef(null);
  useEffect(() => () => clearTimeout(due.current), []);
  const later = (value) => {
    clearTimeout(due.current);
    due.current = setTimeout(() => setQuery({ [name]: value.trim() }), 250);
  };
  return html`
    <input
      class="input"
      type="search"
      placeholder=${words}
      aria-label=${words}
      value=${query.value[name] || ""}
      onInput=${(e) => later(e.target.value)}
      ...${rest}
    />
  `;
}

/** JSON for people. */
export const pretty = (value) => JSON.stringify(value, null, 2);

/** The value of text that should be a JSON object, or `{wrong}`. */
export function objectOf(text) {
  if (!text.trim()) return { value: {} };
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value)
      ? { value }
      : { wrong: 'Write a JSON object, such as {"rows": 3}.' };
  } catch (error) {
    return { wrong: `This is no JSON: ${error.message}` };
  }
}
