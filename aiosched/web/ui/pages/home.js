// Home: health, what runs and waits, what needs attention, past and coming runs.
import { html, useEffect, useRef } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { href, path } from "../lib/router.js";
import { relative } from "../lib/time.js";
import { Card, Failure, Link, Loading, Page, When } from "../parts/basics.js";
import { Timeline } from "../parts/timeline.js";

const WORST_FIRST = { scheduler: 0, import_error: 1, failed: 2, paused: 3, late: 4, pool: 5, callback: 6 };

const KINDS = {
  scheduler: ["✕", "danger"],
  import_error: ["✕", "danger"],
  failed: ["✕", "danger"],
  paused: ["‖", "warn"],
  late: ["◔", "warn"],
  pool: ["≡", "warn"],
  callback: ["!", "warn"],
};

const HEALTH = {
  healthy: ["✓", "good", "healthy"],
  degraded: ["!", "warn", "degraded"],
  unhealthy: ["✕", "danger", "unhealthy"],
};

export function Home() {
  const due = useRef(null);
  const summary = useResource(
    "summary",
    {},
    {
      kinds: ["run", "dag", "pool", "command", "scheduler"],
      onNews: (data) => {
        due.current ??= setTimeout(() => {
          due.current = null;
          summary.reload();
        }, 1500);
        return data;
      },
    },
  );
  useEffect(() => {
    const again = setInterval(() => {
      if (!document.hidden) summary.reload();
    }, 10_000); // figures of schedulers come with their leases
    return () => {
      clearInterval(again);
      clearTimeout(due.current);
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
      <${Timeline} />
    <//>
  `;
}

const PAGES = {
  schedulers: "/schedulers",
  parser: "/import-errors",
  executors: "/schedulers",
  database: "/settings",
};

/** @param {Props<{ components: Api["HealthReport"]["components"] }>} props */
const Health = ({ components }) => html`
  <section class="card health" aria-label="Health">
    ${Object.entries(components).map(([name, part]) => {
      const [glyph, kind, words] = HEALTH[part.status] ?? ["?", "warn", part.status];
      return html`
        <a key=${name} href=${href(PAGES[name] ?? "/schedulers")} class=${kind}>
          <i aria-hidden="true">${glyph}</i>
          <span>
            <b>${name}</b>
            <span class="hidden-text">${words}: </span>
            <span class="faint">${part.detail || words}</span>
          </span>
        </a>
      `;
    })}
  </section>
`;

/** @param {Props<{ counts: Api["Counts"] }>} props */
function Figures({ counts }) {
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
        "tasks running",
        `in ${counts.running_runs} ${counts.running_runs === 1 ? "run" : "runs"}`,
        "/runs?state=running",
      )}
      ${figure(
        counts.queued,
        "tasks queued",
        counts.oldest_queued_at
          ? `the oldest ${relative(counts.oldest_queued_at)}`
          : counts.queued_runs
            ? `${counts.queued_runs} runs wait`
            : "nothing waits",
        "/pools",
      )}
      ${figure(
        counts.scheduled + counts.deferred,
        "scheduled or deferred",
        `${counts.scheduled} and ${counts.deferred}`,
        "/runs?state=running",
      )}
      ${figure(counts.failed_runs_24h, "runs failed", "in 24 hours", "/runs?state=failed", "danger")}
      ${figure(
        counts.late_dags,
        "DAGs are late",
        counts.late_dags ? "see below" : "all on time",
        "/dags?status=active",
        "warn",
      )}
    </section>
  `;
}

/** Where to go and what to do about something that needs somebody. */
/** @param {Api["Attention"]} one */
function remedy({ kind, dag_id, run_id }) {
  const dag = dag_id && path("dags", dag_id);
  if (kind === "scheduler") return ["/schedulers", "Look at the schedulers"];
  if (kind === "import_error") return ["/import-errors", "Look at the error"];
  if (kind === "pool") return ["/pools", "Look at the pools"];
  if (kind === "failed")
    return run_id
      ? [path("dags", dag_id, "runs", run_id), "Look at the run"]
      : [`${dag}?tab=runs&state=failed`, "Look at the runs"];
  if (kind === "paused") return [`${dag}?tab=runs&state=queued`, "See what waits, unpause"];
  return [dag ?? "/dags", "Look at the DAG"];
}

/** @param {Props<{ items: Api["Attention"][] }>} props */
function Attention({ items }) {
  const sorted = [...items].sort((a, b) => (WORST_FIRST[a.kind] ?? 9) - (WORST_FIRST[b.kind] ?? 9));
  if (!sorted.length)
    return html`
      <section class="card health" aria-label="Needs attention">
        <span class="home-quiet good">
          <i aria-hidden="true">✓</i>
          <span>
            <b>Nothing needs you.</b> No failed, late or stuck DAG, and every file can be read.
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
