// One scheduler: what it owns, how busy it is, and its figures.
import { html } from "../../lib/html.js";
import { quantile } from "../../lib/figures.js";
import { duration } from "../../lib/time.js";
import { Card, Facts, State, Tag, When } from "../../parts/basics.js";
import { Parts } from "../../parts/facts.js";

const LOST = {
  lost_attempts: "attempts lost",
  takeovers: "takeovers",
  recoveries: "recoveries",
  stale_writes_refused: "stale writes refused",
  unknown_commits: "commits in doubt",
  differences: "differences found",
};

export const figure = (one, name) => one.figures?.histograms?.[name];

const KINDS = { alive: "good", draining: "warn", dead: "danger" };

const two = (histogram) =>
  histogram?.count ? html`
    <span class="tabular">
      ${duration(quantile(histogram, 0.5))} <span class="faint">p50</span> · ${duration(quantile(histogram, 0.99))}${" "}
      <span class="faint">p99</span>
    </span>
  ` : html`
    <span class="faint">nothing yet</span>
  `;

export function Scheduler({ one, hue }) {
  const f = one.figures;
  const room = f?.executor ?? {};
  const lost = Object.entries(LOST)
    .filter(([name]) => f?.counters?.[name])
    .map(([name, words]) => `${f.counters[name]} ${words}`);
  return html`
    <${Card}
      title=${
        html`<span class="row near">
          <i class="dot" style=${{ background: `var(${hue})` }} />
          ${one.name}
        </span>`
      }
      actions=${html`<${Tag} kind=${KINDS[one.status]}>${one.status}<//>`}
    >
      <div class="columns">
        <${Facts}
          rows=${[
            ["Host", `${one.hostname}, process ${one.pid}`],
            ["Version", one.version],
            [
              "Started",
              html`
                <${When} at=${one.started_at} /> <span class="faint">incarnation ${one.incarnation}</span>
              `,
            ],
            ["Lease", html`renewed ${duration(one.lease_age)} ago`],
            ["Executor", `${one.executor}, ${one.slots} slots`],
            ["Partitions", one.partitions],
          ]}
        />
        ${f ? html`
          <${Facts}
            rows=${[
              [
                "In flight",
                f.in_flight === undefined ? null : html`
                  <span class="row near">
                    <${Parts}
                      label=${`${f.in_flight} of ${f.parallelism}`}
                      parts=${[
                        {
                          share: Math.min(f.in_flight / Math.max(f.parallelism, 1), 1),
                          name: "state-running",
                          words: "in flight",
                        },
                      ]}
                    />
                    <span class="tabular">
                      ${f.in_flight} of ${f.parallelism}
                    </span>
                  </span>
                `,
              ],
              [
                "Task instances",
                f.tasks && html`
                  <span class="row">
                    ${Object.entries(f.tasks)
                      .filter(([, n]) => n)
                      .map(([state, n]) => html`
                        <${State} name=${state} count=${n} />
                      `)}
                    ${!Object.values(f.tasks).some(Boolean) && html`<span class="faint">none</span>`}
                  </span>
                `,
              ],
              [
                "Ready, no slot",
                f.waiting &&
                  (Object.entries(f.waiting)
                    .filter(([, n]) => n)
                    .map(([pool, n]) => `${n} for ${pool}`)
                    .join(", ") || html`<span class="faint">none</span>`),
              ],
              ["Oldest queued", f.oldest_queued_seconds && duration(f.oldest_queued_seconds)],
              [
                "Open slots",
                Object.entries(room)
                  .map(([name, r]) => `${name}: ${r.open} and ${r.open_async} async`)
                  .join("; "),
              ],
              ["Runs in memory", f.runs],
            ]}
          />
        ` : html`
          <p class="soft">Its figures come with the next renewal of its lease.</p>
        `}
        ${f?.histograms && html`
          <${Facts}
            rows=${[
              ["Ready to started", two(f.histograms.task_lag)],
              ["Commit", two(f.histograms.journal_commit)],
              ["Critical section", two(f.histograms.critical_section)],
              ["Loop lag", two(f.histograms.loop_lag)],
              [
                "Parsing",
                f.parsing && `${f.parsing.files} files, ${f.parsing.dags} DAGs, ${f.parsing.errors} with errors`,
              ],
              ["Trouble", lost.join(", ") || html`<span class="faint">none</span>`],
            ]}
          />
        `}
      </div>
    <//>
  `;
}
