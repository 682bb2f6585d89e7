// Schedulers and workers: who is alive, which partitions are whose, how quick they are.
import { html, useEffect, useState } from "../lib/html.js";
import { useResource } from "../lib/api.js";
import { quantile, since, together } from "../lib/figures.js";
import { duration } from "../lib/time.js";
import { Card, Empty, Facts, Notice, Page, Shown, State, Tag, When } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Parts } from "../parts/facts.js";

const PARTITIONS = 64;
const EVERY = 5000; // milliseconds between looks; figures come with each renewal of a lease
const KEPT = 360; // looks that the charts show
const HUES = ["--owner-0", "--owner-1", "--owner-2", "--owner-3", "--owner-4", "--owner-5"];
const LOST = {
  lost_attempts: "attempts lost",
  takeovers: "takeovers",
  recoveries: "recoveries",
  stale_writes_refused: "stale writes refused",
  unknown_commits: "commits in doubt",
  differences: "differences found",
};

const figure = (one, name) => one.figures?.histograms?.[name];
const ended = (items) =>
  items.reduce((sum, one) => sum + Object.values(one.figures?.finished ?? {}).reduce((a, b) => a + b, 0), 0);

/** One look at all schedulers, against the look before. */
function sample(items, before) {
  const lag = together(items.map((one) => figure(one, "task_lag")));
  const commit = together(items.map((one) => figure(one, "journal_commit")));
  const now = { at: Date.now() / 1000, lag, commit, done: ended(items) };
  const fresh = lag && before?.lag ? since(lag, before.lag) : null;
  return {
    ...now,
    p50: quantile(fresh, 0.5),
    p99: quantile(fresh, 0.99),
    rate: before ? Math.max(now.done - before.done, 0) / Math.max(now.at - before.at, 0.001) : null,
  };
}

export function Schedulers() {
  const found = useResource("schedulers", {}, { kinds: ["scheduler"] });
  const [history, setHistory] = useState([]);
  useEffect(() => {
    const again = setInterval(() => {
      if (!document.hidden) found.reload();
    }, EVERY);
    return () => clearInterval(again);
  }, [found]);
  const data = found.data.value;
  useEffect(() => {
    if (data) setHistory((before) => [...before.slice(1 - KEPT), sample(data.items, before.at(-1))]);
  }, [data]);
  return html`
    <${Page} title="Schedulers and workers">
      <${Shown} of=${found}>
        ${({ items }) =>
          items.length ? html`
            <${Fleet} items=${items} history=${history} />
          ` : html`
            <${Card}>
              <${Empty} title="No scheduler is running" command="aiosched serve">
                Runs wait until one starts.
              <//>
            <//>
          `
        }
      <//>
    <//>
  `;
}

function Fleet({ items, history }) {
  const owner = Array(PARTITIONS).fill(null);
  items.forEach((one, i) =>
    one.owned.forEach((partition) => {
      owner[partition] = i;
    }),
  );
  const orphans = owner.filter((o) => o === null || items[o].status === "dead").length;
  const alive = items.filter((one) => one.status !== "dead");
  const times = history.map((look) => look.at);
  return html`
    <div class="stack">
      ${!alive.length && html`
        <${Notice} kind="danger">
          No scheduler is alive: nothing starts. Start one with <code>aiosched serve</code>.
        <//>
      `}
      ${alive.length > 0 && orphans > 0 && html`
        <${Notice} kind="warn">
          ${orphans} of ${PARTITIONS} partitions have no living owner: the DAGs in them wait until somebody takes
          them over, usually within seconds.
        <//>
      `}
      <div class="columns">
        <${Card}
          title="Partitions"
          actions=${
            html`<span class="soft">
              ${PARTITIONS - orphans} of ${PARTITIONS} owned
            </span>`
          }
        >
          <div
            class="cells"
            role="img"
            aria-label=${items.map((one) => `${one.name} owns ${one.partitions}`).join(", ")}
          >
            ${owner.map((o, n) => html`
              <i
                class=${o === null ? "none" : ""}
                style=${o === null ? undefined : { background: `var(${HUES[o % HUES.length]})` }}
                title=${`partition ${n}: ${o === null ? "nobody" : items[o].name}`}
              />
            `)}
          </div>
          <div class="row wide legend">
            ${items.map((one, i) => html`
              <span class="row near">
                <i style=${{ background: `var(${HUES[i % HUES.length]})` }} />
                ${one.name} <span class="faint tabular">${one.partitions}</span>
              </span>
            `)}
          </div>
        <//>
        <${Card} title="Since this page is open" actions=${html`<span class="faint">every ${EVERY / 1000} s</span>`}>
          ${times.length > 1 ? html`
            <div class="stack">
              <${Chart}
                label="From ready to started"
                seconds
                times=${times}
                lines=${[
                  { name: "p50", colour: "--state-running", values: history.map((h) => h.p50) },
                  { name: "p99", colour: "--state-up_for_retry", values: history.map((h) => h.p99) },
                ]}
              />
              <${Chart}
                label="Attempts ended a second"
                times=${times}
                lines=${[{ name: "ended/s", colour: "--state-success", values: history.map((h) => h.rate) }]}
              />
            </div>
          ` : html`
            <p class="soft">Charts begin with the next look, in a few seconds.</p>
          `}
        <//>
      </div>
      ${items.map((one, i) => html`
        <${Scheduler} key=${one.incarnation} one=${one} hue=${HUES[i % HUES.length]} />
      `)}
    </div>
  `;
}

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

function Scheduler({ one, hue }) {
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
