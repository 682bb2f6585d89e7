// A schedule in words, along with its cron expression if it has one.
import { html } from "../lib/html.js";
import { scheduleWords } from "../lib/cron.js";

/** @param {{ of: string | null }} props */
export function Schedule({ of }) {
  const { words, expression } = scheduleWords(of);
  return html`
    <span class="schedule">
      ${words}
      ${expression && html`
        ${" "}
        <code class="faint">${expression}</code>
      `}
    </span>
  `;
}
