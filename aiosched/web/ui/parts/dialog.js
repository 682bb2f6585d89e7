// Dialogs for actions: what will be touched, the equivalent command line, and the answer as a toast.
import { html, signal, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { Notice } from "./basics.js";
import { CopyButton } from "./copy.js";

const toasts = signal([]);
let number = 0;

/** Tell something for a few seconds; kinds: "good", "danger" or none. */
export function toast(words, kind) {
  const one = { key: ++number, words, kind };
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
        ${t.words}
      </div>
    `)}
  </div>
`;

/** Tell that an action is `done`, or stored until a scheduler applies it (202). */
export const tellDone = (answer, done) =>
  answer?.accepted
    ? toast("The request is stored and waits: no scheduler has applied it yet.")
    : toast(done, "good");

/** A shell word, quoted where it must be. */
export const shell = (word) =>
  /^[\w@%+=:,./-]+$/.test(String(word)) ? String(word) : `'${String(word).replace(/'/g, `'\\''`)}'`;
/** A command line from words; empty ones are left out. */
export const commandLine = (...words) =>
  ["aiosched", ...words.filter((w) => w !== null && w !== undefined && w !== "" && w !== false)]
    .map(shell)
    .join(" ");

/** The command line that does the same, with a button that copies it. */
export function Cli({ line }) {
  return html`
    <div class="cli">
      <code>${line}</code>
      <${CopyButton} text=${line} />
    </div>
  `;
}

/** A modal dialog, open as long as it is rendered; what had the focus before has it again afterwards. */
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
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
      onClick=${(e) => {
        if (e.target === box.current) onClose();
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
 * Ask before doing: `words` of the button, `act()` returns what the API said (202: it waits), `done` is the toast.
 * Children are the preview or the form; `cli` the equivalent line.
 */
export function Confirm({
  title,
  words,
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
  const [error, setError] = useState(null);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const answer = await act();
      tellDone(answer, done);
      onClose();
      onDone?.(answer);
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
            ${busy ? "…" : words}
          </button>
        </div>
      </form>
    <//>
  `;
}
