// Home: health, running and waiting tasks, what needs attention, recent and upcoming runs.
import { isStale, trouble } from "../lib/freshness.js";
import { html, useEffect, useRef } from "../lib/html.js";
import { useResource } from "../lib/resources.js";
import { href, path } from "../lib/router.js";
import { badges } from "../lib/badges.js";
import { ActivityCards } from "../parts/activity.js";
import { Card, Failure, Link, Loading, Page, When } from "../parts/basics.js";
import { Timeline } from "../parts/timeline.js";

/** By urgency: the glyph and colour of each kind. @type {Record<string, [glyph: string, kind: string]>} */
const KINDS = {
  scheduler: ["✕", "danger"],
  lost: ["✕", "danger"],
  failed: ["✕", "danger"],
  input: ["?", "warn"],
  undelivered: ["!", "danger"],
  alert: ["!", "danger"],
  quarantine: ["✕", "danger"],
  pool: ["≡", "warn"],
  import_error: ["✕", "danger"],
  paused: ["‖", "warn"],
  late: ["◔", "warn"],
  slow: ["◷", "warn"],
  callback: ["!", "warn"],
};
const ORDER = Object.keys(KINDS);

/** @type {Record<string, [glyph: string, kind: string, words: string]>} */
const HEALTH = {
  healthy: ["✓", "good", "healthy"],
  degraded: ["!", "warn", "degraded"],
  unhealthy: ["✕", "danger", "unhealthy"],
  away: ["✕", "danger", "unreachable"],
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
        <${Attention} items=${data.attention} counts=${data.counts} names=${data.dag_display_names} />
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
      const stale = trouble.value?.kind === name ? "away" : "unknown";
      const detail = isStale.value ? null : part.detail;
      const [glyph, kind, words] = HEALTH[isStale.value ? stale : part.status] ?? ["?", "warn", "unknown"];
      return html`
        <a key=${name} href=${href(PAGES[name] ?? "/schedulers")} class=${kind}>
          <i aria-hidden="true">${glyph}</i>
          <span>
            <b>${name}</b>
            ${detail && html`<span class="hidden-text">${words}: </span>`}
            <span class="faint">${detail || words}</span>
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
        `${counts.running_runs} ${counts.running_runs === 1 ? "run" : "runs"} running`,
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
function remedy({ kind, dag_id, run_id, task_id, map_index, pool, number, search }) {
  const dag = dag_id && path("dags", dag_id);
  if (kind === "scheduler") return ["/schedulers", "View schedulers"];
  if (kind === "lost") return ["/runs?order=-start_date", "View runs"];
  if (kind === "import_error") return ["/import-errors", number > 1 ? "View errors" : "View error"];
  if (kind === "pool")
    return pool ? [`/pools?pool=${encodeURIComponent(pool)}`, "View pool"] : ["/pools", "View pools"];
  if (kind === "input" && dag_id && run_id && task_id) {
    const asked = { dag_id, run_id, task_id, map_index: String(map_index), answer: "1" };
    return [`/inputs?${new URLSearchParams(asked)}`, "Answer"];
  }
  if (kind === "alert") return ["/alerts", number > 1 ? "View alerts" : "View alert"];
  if (kind === "undelivered") return ["/alerts?tab=rules", "View rules"];
  if (kind === "failed" && number > 1 && search)
    return [`/task-instances?state=failed&reason=${encodeURIComponent(search)}`, "View all"];
  if (kind === "failed" || kind === "slow")
    return dag_id && run_id
      ? [path("dags", dag_id, "runs", run_id), "View run"]
      : [`${dag}?tab=runs&state=failed`, "View runs"];
  if (kind === "paused") return [`${dag}?tab=runs&state=queued`, "View waiting runs"];
  return [dag ?? "/dags", "View DAG"];
}

/**
 * The names in an item, each with the path of its page.
 * @param {Api["Attention"]} one
 * @returns {[name: string, to: string][]}
 */
function namesOf({ dag_id, run_id, task_id, map_index, pool, dags }) {
  /** @type {[string, string][]} */
  const found = [];
  if (pool) found.push([pool, `/pools?pool=${encodeURIComponent(pool)}`]);
  if (!dag_id || dags.length) return found;
  found.push([dag_id, path("dags", dag_id)]);
  if (run_id) found.push([run_id, path("dags", dag_id, "runs", run_id)]);
  if (run_id && task_id) {
    const task = path("dags", dag_id, "runs", run_id, "tasks", task_id);
    found.push(
      map_index < 0 ? [task_id, task] : [`${task_id}[${map_index}]`, `${task}?map_index=${map_index}`],
    );
  }
  return found;
}

/**
 * The words of an item; the first place of each name is a link. `names` are shown in place of ids of DAGs.
 * @param {{ one: Api["Attention"], names: Record<string, string> }} props
 */
function Words({ one, names }) {
  const rest = new Map(namesOf(one));
  /** @type {Content[]} */
  const parts = [];
  for (const word of one.words.split(/(\s+|[:,](?=\s|$))/)) {
    const name = rest.has(word) ? word : word.replace(/^['"]|['"]$/g, "");
    const to = rest.get(name);
    rest.delete(name);
    const shown = name === one.dag_id ? (names[name] ?? word) : word;
    parts.push(
      to ? html`
        <${Link} to=${to} title=${name}>
          ${shown}
        <//>
      ` : (
        word
      ),
    );
  }
  return html`
    <span class="what sentence">
      ${parts}
      ${one.dags.length > 0 && html`
        <span class="named">
          ${one.dags.slice(0, SHOWN).map((dag) => html`
            <${Link} to=${path("dags", dag)} title=${dag}>
              ${names[dag] ?? dag}
            <//>
          `)}
          ${one.number > SHOWN && html`<span class="faint">+${one.number - SHOWN}</span>`}
        </span>
      `}
    </span>
  `;
}

const SHOWN = 4; // DAGs of one error

/**
 * Said when nothing needs somebody: what was looked at, and what was not quite well.
 * @param {{ counts: Api["Counts"], badges: Api["Badges"] | null }} props
 */
function Quiet({ counts, badges }) {
  const known = badges?.alerts ?? 0;
  const failed = counts.failed_runs_24h;
  return html`
    <section class="card health" aria-label="Needs attention">
      <span class=${`home-quiet ${isStale.value ? "" : "good"}`}>
        <i aria-hidden="true">${isStale.value ? "?" : "✓"}</i>
        <span>
          <b>${isStale.value ? "Nothing needed attention." : "Nothing needs attention."}</b> No DAG's last run
          failed, is late or stuck, nothing waits for an answer or is in quarantine, and all files can be
          imported.
          ${failed > 0 &&
            ` ${failed} ${failed === 1 ? "run" : "runs"} of the last 24 hours failed, and a later one did not.`}
          ${known > 0 && ` ${known} open ${known === 1 ? "alert is" : "alerts are"} acknowledged or silenced.`}
        </span>
      </span>
    </section>
  `;
}

/** @param {{ items: Api["Attention"][], counts: Api["Counts"], names: Record<string, string> }} props */
function Attention({ items, counts, names }) {
  if (!items.length) return html`<${Quiet} counts=${counts} badges=${badges.value} />`;
  const sorted = [...items].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
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
              <${Words} one=${one} names=${names} />
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
