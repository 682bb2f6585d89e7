// A button that puts text on the clipboard, and says whether that worked.
import { html, useEffect, useState } from "../lib/html.js";

/** Copy, also where the server is reached without HTTPS and browsers have no clipboard for pages. */
async function copy(text, box) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "hidden-text" });
  box.append(area); // inside: a dialog keeps the focus to itself
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("no clipboard");
}

export function CopyButton({ text }) {
  const [told, setTold] = useState(null);
  useEffect(() => {
    const due = told && setTimeout(() => setTold(null), 1500);
    return () => clearTimeout(due);
  }, [told]);
  const act = async (event) => {
    const button = event.currentTarget;
    try {
      await copy(text, button.parentElement);
      setTold("Copied");
    } catch {
      setTold("Select it: copying is not allowed here");
    }
    button.focus();
  };
  return html`
    <button type="button" class="button small" aria-live="polite" onClick=${act}>
      ${told ?? "Copy"}
    </button>
  `;
}
