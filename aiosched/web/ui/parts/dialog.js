// Dialogs for actions: a preview, the equivalent command line, and the result as a toast.
import { html, signal, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { Notice } from "./basics.js";
import { CopyButton } from "./copy.js";

/** @type {Signal<{ key: number, text: string, kind: string | undefined }[]>} */
const toasts = signal([]);
let number = 0;

/**
 * Show a message for a few seconds; kinds: "good", "danger" or none.
 * @param {string} text
 * @param {string} [kind]
 */
export function toast(text, kind) {
  const one = { key: ++number, text, kind };
  toasts.value = [...toasts.value, one];
  setTimeout(
    () => {
      toasts.value = toasts.value.filter((t) => t !== one);
    },
    kind === "danger" ? 10000 : 5000,
  );
}
export const Toasts = () => html`
  <div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map((t) => html`
      <div key=${t.key} class=${t.kind} role=${t.kind === "danger" ? "alert" : undefined}>
        ${t.text}
      </div>
    `)}
  </div>
`;

/**
 * The text of a toast, or what makes it from the response.
 * @typedef {string | ((response: any) => string)} Done
 *
 * Show that an action is `done`, or queued until a scheduler applies it (202).
 * @param {Answer} response
 * @param {Done} done
 */
export const reportDone = (response, done) =>
  response?.accepted
    ? toast("Request stored: it will be applied once a scheduler is available.")
    : toast(typeof done === "function" ? done(response) : done, "good");

/**
 * A shell word, quoted if necessary.
 * @param {unknown} word
 */
export const shell = (word) =>
  /^[\w@%+=:,./-]+$/.test(String(word)) ? String(word) : `'${String(word).replace(/'/g, `'\\''`)}'`;
/** @typedef {string | number | false | null | undefined} Word null, undefined and false are left out */

/**
 * A command line from the words of the command, what it is about, and options; an empty text clears what it names.
 * Names may begin with a dash: `--` then says that they are no options.
 * @param {string} command
 * @param {Word[]} names
 * @param {...Word} options
 */
export function commandLine(command, names, ...options) {
  const [about, rest] = [names, options].map((words) =>
    words.filter((w) => w !== null && w !== undefined && w !== false).map(String),
  );
  const given = about.some((w) => /^-./.test(w)) ? [...rest, "--", ...about] : [...about, ...rest];
  return ["aiosched", ...command.split(" "), ...given].map(shell).join(" ");
}

/**
 * The equivalent command line, with a copy button.
 * @param {{ line: string }} props
 */
export function Cli({ line }) {
  return html`
    <div class="cli">
      <code>${line}</code>
      <${CopyButton} text=${line} />
    </div>
  `;
}

/**
 * A modal dialog, open while it is rendered; afterwards the focus returns to where it was.
 * @param {{ title: string, onClose: () => void, children?: Content }} props
 */
export function Dialog({ title, onClose, children }) {
  /** @type {Ref<HTMLDialogElement>} */
  const box = useRef(null);
  const pressedOutside = useRef(false); // text is selected beyond the edge, too
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => {
      dialog.close();
      if (document.activeElement === document.body)
        document.getElementById("main")?.focus({ preventScroll: true });
    };
  }, []);
  return html`
    <dialog
      ref=${box}
      aria-label=${title}
      onCancel=${(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown=${(e) => {
        pressedOutside.current = e.target === box.current;
      }}
      onClick=${(e) => {
        if (pressedOutside.current && e.target === box.current) onClose();
      }}
    >
      <div class="inner">
        <h2>${title}</h2>
        ${children}
      </div>
    </dialog>
  `;
}

/**
 * @typedef {DialogProps & { title: string, submitLabel: string, act: () => Promise<Answer>, cli?: string,
 *   done: Done, danger?: boolean, disabled?: boolean, children?: Content }} ConfirmProps
 *
 * A confirmation dialog: `submitLabel` is the text of the button, `act()` returns the API response (202: queued),
 * `done` is the toast, `cli` the equivalent command line. Children are the preview or the form.
 * @param {ConfirmProps} props
 */
export function Confirm({
  title,
  submitLabel,
  act,
  done,
  cli,
  danger = false,
  disabled = false,
  onClose,
  onDone,
  children,
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  /** @param {Event} event */
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const response = await act();
      reportDone(response, done);
      onClose();
      onDone?.(response);
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form class="stack" onSubmit=${run}>
        ${children}
        ${cli && html`<${Cli} line=${cli} />`}
        ${error && html`<${Notice} kind="danger">${error.message}<//>`}
        <div class="actions">
          <button type="button" class="button" onClick=${onClose}>
            Cancel
          </button>
          <button class=${danger ? "button danger" : "button primary"} disabled=${busy || disabled}>
            ${busy ? "…" : submitLabel}
          </button>
        </div>
      </form>
    <//>
  `;
}
