// A schedule in words, along with its cron expression if it has one.
import { html } from "../lib/html.js";
import { scheduleWords } from "../lib/cron.js";
import { zoneName } from "../lib/time.js";

/** @param {{ of: string | null, timezone?: string | null }} props */
export function Schedule({ of, timezone }) {
  const { words, expression } = scheduleWords(of);
  const isClock = words === of || /\d\d:\d\d/.test(words);
  const at = isClock && timezone && timezone !== zoneName(); // another clock than the one that is shown
  return html`
    <span class="schedule">
      ${words} ${at && timezone}
      ${expression && html`
        ${" "}
        <code class="faint" title=${timezone ?? ""}>
          ${expression}
        </code>
      `}
    </span>
  `;
}
