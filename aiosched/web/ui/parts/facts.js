// Shared by the run and operations pages: permissions, notes, segmented bars, folded text, filters.
import { classes, html, useEffect, useRef, useState } from "../lib/html.js";
import { get, may, me, put } from "../lib/api.js";
import { useDraft } from "../lib/drafts.js";
import { typed } from "../lib/json.js";
import { query, setQuery } from "../lib/router.js";
import { Meanwhile, useMeanwhile } from "./condition.js";
import { CopyButton } from "./copy.js";
import { Confirm } from "./dialog.js";
import { Markdown } from "./markdown.js";

/**
 * Children, shown to users with `role` only; others see why the actions are missing.
 * @param {{ role?: string, children?: Content, quiet?: boolean }} props
 */
export function Allowed({ role = "operator", children, quiet = false }) {
  if (may(role)) return children;
  return quiet ? null : html`
    <span class="faint" title=${`Logged in as ${me.value?.name} (${me.value?.role}).`}>
      Read only: actions require the ${role} role
    </span>
  `;
}

/**
 * An editable note; `path` is its API path, `params` such as `map_index`.
 * @param {{ path: string, params?: InstanceParams, text: string | null, onDone: () => void }} props
 */
export function Note({ path, params, text, onDone }) {
  const [open, setOpen] = useState(false);
  const suffix = (params?.map_index ?? -1) >= 0 ? `?map_index=${params?.map_index}` : "";
  return html`
    <span class="row near">
      ${text ? html`
        <div class="note">
          <${Markdown} text=${text} />
        </div>
      ` : html`
        <span class="faint">none</span>
      `}
      <${Allowed} quiet>
        <button class="button small quiet" onClick=${() => setOpen(true)}>
          ${text ? "Edit note" : "Add note"}
        </button>
      <//>
      ${open && html`
        <${NoteDialog}
          path=${path + suffix}
          text=${text ?? ""}
          onClose=${() => setOpen(false)}
          onDone=${onDone}
        />
      `}
    </span>
  `;
}

/** @param {DialogProps & { path: string, text: string }} props */
function NoteDialog({ path, text, onClose, onDone }) {
  const [draft, setDraft] = useDraft(["note", path], text);
  const { theirs, save } = useMeanwhile({ note: text }, async () => ({
    note: (await get(path.replace(/\/note(?=\?|$)/, ""))).note ?? "",
  }));
  return html`
    <${Confirm}
      title="Note"
      submitLabel="Save"
      act=${() => save((_, known) => put(path, { note: draft, was: known?.note }))}
      done="Note saved."
      onClose=${onClose}
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
        <span class="help">Leave empty to remove the note.</span>
      </div>
      <${Meanwhile}
        theirs=${theirs}
        mine=${{ note: draft }}
        onTake=${(/** @type {{ note: string }} */ stored) => setDraft(stored.note)}
      />
    <//>
  `;
}

/**
 * @typedef {{ share: number, name: string, words: string }} Part
 *
 * A segmented bar of `[{share, name, words}]`: `share` from 0 to 1, `name` a colour variable.
 * @param {{ parts: Part[], label: string }} props
 */
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

/**
 * Long text: collapsed, with a copy button.
 * @param {{ title: string, text: string, open?: boolean }} props
 */
export function Folded({ title, text, open = false }) {
  return html`
    <details class="folded" open=${open}>
      <summary>${title}</summary>
      <${Text} text=${text} />
    </details>
  `;
}

/**
 * Preformatted text with a copy button.
 * @param {{ text: string }} props
 */
export const Text = ({ text }) => html`
  <div class="text">
    <${CopyButton} text=${text} />
    <pre tabindex="0">${text}</pre>
  </div>
`;

/**
 * A filter in the query string: `options` are `[value, label]`; at most one is selected.
 * @param {{ name: string, options: Choice[], label: string }} props
 */
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

/**
 * A filter field stored in the query string, debounced while typing.
 * @param {{ name: string, words: string, [attribute: string]: unknown }} props
 */
export function FilterField({ name, words, ...rest }) {
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  /** @param {string} value */
  const debounced = (value) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ [name]: value.trim() }), 250);
  };
  return html`
    <input
      class="input"
      type="search"
      placeholder=${words}
      aria-label=${words}
      value=${query.value[name] || ""}
      onInput=${(e) => debounced(e.target.value)}
      ...${rest}
    />
  `;
}

/**
 * Pretty-printed JSON.
 * @param {unknown} value
 */
export const pretty = (value) => JSON.stringify(value, null, 2);

/**
 * Parse a JSON object: `{value}`, or `{wrong}` with an error message.
 * @param {string} text
 * @returns {{ value: Record<string, unknown>, wrong?: undefined } | { value?: undefined, wrong: string }}
 */
export function objectOf(text) {
  if (!text.trim()) return { value: {} };
  try {
    const value = typed(text);
    return value && typeof value === "object" && !Array.isArray(value)
      ? { value }
      : { wrong: 'Enter a JSON object, such as {"rows": 3}.' };
  } catch (error) {
    return { wrong: error instanceof RangeError ? error.message : `Invalid JSON: ${error.message}` };
  }
}
