// The banner above every page while its data may be old, no scheduler works, or machines of schedulers differ.
import { html } from "../lib/html.js";
import { dataFrom, trouble } from "../lib/freshness.js";
import { href } from "../lib/router.js";
import { instant, now, zoneName } from "../lib/time.js";

/**
 * A time of today without its day.
 * @param {number} at
 */
function clock(at) {
  const text = instant(at);
  return text.startsWith(instant(now.value).slice(0, 10)) ? text.slice(11) : text;
}

/** @param {import("../lib/freshness.js").Trouble} found */
function words({ kind, since, fleet }) {
  const from = dataFrom();
  const when = `since ${clock(since)} ${zoneName()}`;
  if (kind === "database")
    return `Database unreachable ${when}${from ? `; showing data from ${clock(from)}` : ""}.`;
  if (kind === "server")
    return `Connection lost; data may be stale${from ? ` (from ${clock(from)} ${zoneName()})` : ""}. Reconnecting…`;
  if (kind === "denied") return `You may not see changes any more ${when}; data may be stale.`;
  if (kind === "slow") return `No answer from the server ${when}; data may be stale.`;
  if (kind === "replica")
    return `Showing data from ${clock(since)} ${zoneName()}: the replica that pages are read from is behind.`;
  if (kind === "machines") return `Machines of schedulers differ ${when}:`;
  return fleet === "none"
    ? `No scheduler running ${when}: no run is created and no task starts.`
    : `No scheduler responding ${when}: no run is created and no task starts.`;
}

export function Banner() {
  const found = trouble.value;
  return html`
    <div role="status" class="banner">
      ${found && html`
        <div class=${`notice ${["slow", "machines", "replica"].includes(found.kind) ? "warn" : "danger"}`}>
          <span class="grow">
            <b>${words(found)}</b>
            ${found.detail && html`<span class="sentence"> ${found.detail}</span>`}
            ${found.kind === "machines" && html`
              <span class="sentence">
                . <code>aiosched doctor</code> says more.
              </span>
            `}
            ${found.kind === "schedulers" && html`
              <span class="sentence">
                ${" "}
                Start one with <code>aiosched serve</code>, or see <a href=${href("/schedulers")}>Schedulers</a>
                .
              </span>
            `}
          </span>
        </div>
      `}
    </div>
  `;
}
