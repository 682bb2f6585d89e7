// Home: health, running and waiting tasks, what needs attention, recent and upcoming runs.
import { isStale } from "../lib/freshness.js";
import { html, useEffect, useRef } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { href, path } from "../lib/router.js";
import { ActivityCards } from "../parts/activity.js";
import { Card, Failure, Link, Loading, Page, When } from "../parts/basics.js";
import { Timeline } from "../parts/timeline.js";

const WORST_FIRST = {
  scheduler: 0,
  lost: 0,
  quarantine: 1,
  import_error: 2,
  failed: 3,
  paused: 4,
  late: 5,
  slow: 6,
  pool: 7,
  callback: 8,
};

const KINDS = {
  scheduler: ["✕", "danger"],
  lost: ["✕", "danger"],
  quarantine: ["✕", "danger"],
  import_error: ["✕", "danger"],
  failed: ["✕", "danger"],
  paused: ["‖", "warn"],
  late: ["◔", "warn"],
  slow: ["◷", "warn"],
  pool: ["≡", "warn"],
  callback: ["!", "warn"],
};

/** @type {Record<string, [glyph: string, kind: string, words: string]>} */
const HEALTH = {
  healthy: ["✓", "good", "healthy"],
  degraded: ["!", "warn", "degraded"],
  unhealthy: ["✕", "danger", "unhealthy"],
};

export function Home() {
  /** @type {Ref<number | undefined>} */
  const timer = useRef(undefined);
  /** @type {Resource<Api["Summary"]>} */
  const summary = useResource(
    "summary",
    {},
    {
      kinds: ["run", "dag", "pool", "command", "scheduler"],
      onUpdate: (data) => {
        timer.current ??= setTimeout(() => {
          timer.current = undefined;
          summary.reload();
        }, 1500);
        return data;
      },
    },
  );
  useEffect(() => {
    const poll = setInterval(() => {
      if (!document.hidden) summary.reload();
    }, 10_000); // schedulers report their metrics when they renew their leases
    return () => {
      clearInterval(poll);
      clearTimeout(timer.current);
    };
  }, [summary]);
  const data = summary.data.value;
  return html`
    <${Page} title="Home">
      ${summary.error.value && !data ? html`
        <${Card}>
          <${Failure} error=${summary.error.value} retry=${() => summary.reload()} />
        <//>
      ` : !data ? html`
        <${Card}>
          <${Loading} />
        <//>
      ` : html`
        <${Health} components=${data.components} />
        <${Figures} counts=${data.counts} />
        <${Attention} items=${data.attention} />
      `}
      <${ActivityCards} />
      <${Timeline} />
    <//>
  `;
}

/** @type {Record<string, string>} */
const PAGES = {
  schedulers: "/schedulers",
  parser: "/import-errors",
  executors: "/schedulers",
  database: "/settings",
};

/** @param {{ components: Api["Summary"]["components"] }} props */
const Health = ({ components }) => html`
  <section class="card health" aria-label="Health">
    ${Object.entries(components).map(([name, part]) => {
      const [glyph, kind, words] = HEALTH[isStale.value ? "unknown" : part.status] ?? ["?", "warn", "unknown"];
      return html`
        <a key=${name} href=${href(PAGES[name] ?? "/schedulers")} class=${kind}>
          <i aria-hidden="true">${glyph}</i>
          <span>
            <b>${name}</b>
            <span class="hidden-text">${words}: </span>
            <span class="faint">${isStale.value ? words : part.detail || words}</span>
          </span>
        </a>
      `;
    })}
  </section>
`;

/** @param {{ counts: Api["Counts"] }} props */
function Figures({ counts }) {
  /**
   * @param {number} number
   * @param {string} words
   * @param {Content} more
   * @param {string} to
   * @param {string} [kind]
   */
  const figure = (number, words, more, to, kind) => html`
    <a class=${`figure ${number && kind ? kind : ""}`} href=${href(to)}>
      <b>${number}</b>
      <span>${words}</span>
      ${more && html`<span class="soft">${more}</span>`}
    </a>
  `;
  return html`
    <section class="card figures" aria-label="Now">
      ${figure(
        counts.running,
        counts.running === 1 ? "task running" : "tasks running",
        `in ${counts.running_runs} ${counts.running_runs === 1 ? "run" : "runs"}`,
        "/task-instances?state=running",
      )}
      ${figure(
        counts.queued,
        counts.queued === 1 ? "task queued" : "tasks queued",
        counts.oldest_queued_at ? html`
          oldest queued <${When} at=${counts.oldest_queued_at} ago />
        ` : counts.queued_runs ? (
          `${counts.queued_runs} ${counts.queued_runs === 1 ? "run" : "runs"} waiting`
        ) : (
          "none waiting"
        ),
        "/task-instances?state=queued",
      )}
      ${figure(
        counts.scheduled + counts.deferred,
        "scheduled or deferred",
        `${counts.scheduled} and ${counts.deferred}`,
        "/task-instances?state=scheduled,deferred",
      )}
      ${figure(
        counts.failed_runs_24h,
        counts.failed_runs_24h === 1 ? "run failed" : "runs failed",
        counts.failed_runs_24h_more ? "at least, in the last 24 hours" : "in the last 24 hours",
        "/runs?state=failed&time=24h&order=-end_date",
        "danger",
      )}
      ${figure(
        counts.late_dags,
        counts.late_dags === 1 ? "DAG is late" : "DAGs are late",
        counts.late_dags ? "see below" : "all on time",
        "/dags?status=late",
        "warn",
      )}
    </section>
  `;
}

/**
 * The link that helps with an item: its path and label.
 * @param {Api["Attention"]} one
 * @returns {[to: string, words: string]}
 */
function remedy({ kind, dag_id, run_id, pool }) {
  const dag = dag_id && path("dags", dag_id);
  if (kind === "scheduler") return ["/schedulers", "View schedulers"];
  if (kind === "lost") return ["/runs?order=-start_date", "View runs"];
  if (kind === "import_error") return ["/import-errors", "View error"];
  if (kind === "pool") return [`/pools?pool=${encodeURIComponent(pool ?? "")}`, "View pool"];
  if (kind === "failed" || kind === "slow")
    return dag_id && run_id
      ? [path("dags", dag_id, "runs", run_id), "View run"]
      : [`${dag}?tab=runs&state=failed`, "View runs"];
  if (kind === "paused") return [`${dag}?tab=runs&state=queued`, "View waiting runs"];
  return [dag ?? "/dags", "View DAG"];
}

/** @param {{ items: Api["Attention"][] }} props */
function Attention({ items }) {
  const sorted = [...items].sort((a, b) => (WORST_FIRST[a.kind] ?? 9) - (WORST_FIRST[b.kind] ?? 9));
  if (!sorted.length)
    return html`
      <section class="card health" aria-label="Needs attention">
        <span class="home-quiet good">
          <i aria-hidden="true">✓</i>
          <span>
            <b>All clear.</b> No failed, late or stuck DAGs, none in quarantine, and no import errors.
          </span>
        </span>
      </section>
    `;
  return html`
    <${Card} title="Needs attention" plain actions=${html`<span class="faint">${items.length}</span>`}>
      <ul class="attention">
        ${sorted.map((one) => {
          const [glyph, kind] = KINDS[one.kind] ?? ["!", "warn"];
          const [to, words] = remedy(one);
          return html`
            <li key=${`${one.kind} ${one.dag_id} ${one.words}`}>
              <i class=${kind} aria-hidden="true">
                ${glyph}
              </i>
              <span class="what">${one.words}</span>
              ${one.since && html`
                <span class="faint nowrap">
                  <${When} at=${one.since} ago />
                </span>
              `}
              <${Link} class="button small" to=${to}>
                ${words}
              <//>
            </li>
          `;
        })}
      </ul>
    <//>
  `;
}
