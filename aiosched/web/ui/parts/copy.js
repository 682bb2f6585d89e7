// A button that copies text to the clipboard and reports the result.
import { html, useEffect, useState } from "../lib/html.js";

/**
 * Copy text, also without HTTPS, where browsers do not provide the clipboard API.
 * @param {string} text
 * @param {HTMLElement | null} box the parent of the button
 */
async function copy(text, box) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "hidden-text" });
  box?.append(area); // inside the dialog, which traps the focus
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("no clipboard");
}

/** @param {{ text: string }} props */
export function CopyButton({ text }) {
  const [status, setStatus] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    const timer = status ? setTimeout(() => setStatus(null), 1500) : undefined;
    return () => clearTimeout(timer);
  }, [status]);
  /** @param {Event & { currentTarget: HTMLElement }} event */
  const act = async (event) => {
    const button = event.currentTarget;
    try {
      await copy(text, button.parentElement);
      setStatus("Copied");
    } catch {
      setStatus("Copying failed: select the text instead");
    }
    button.focus();
  };
  return html`
    <button type="button" class="button small" aria-live="polite" onClick=${act}>
      ${status ?? "Copy"}
    </button>
  `;
}

/**
 * The id of what is shown with another name; nothing without one.
 * @param {{ id: string, name: string | null }} props
 */
export const IdOf = ({ id, name }) =>
  name && html`
    <span class="row line">
      <code class="clip" title=${id}>
        ${id}
      </code>
      <${CopyButton} text=${id} />
    </span>
  `;
