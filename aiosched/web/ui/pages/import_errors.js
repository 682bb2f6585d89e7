// Import errors: the line of the user's file that failed, with the code around it; every file and how its parsing went.
import { html } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { path, query } from "../lib/router.js";
import {
  Card,
  Duration,
  Empty,
  Failure,
  Link,
  Loading,
  Page,
  Stale,
  Tabs,
  Tag,
  When,
} from "../parts/basics.js";
import { Choices, Folded } from "../parts/facts.js";
import { Table } from "../parts/table.js";

/** The frame's lines; the marked one stands out. */
const Frame = ({ text }) => html`
  <pre class="frame" tabindex="0" aria-label="Code around the error">
    ${text
      .split("\n")
      .slice(1)
      .map((line) => html`
        <span class=${line.startsWith(">") ? "at" : /^\s*\|\s*\^/.test(line) ? "point" : ""}>
          ${line + "\n"}
        </span>
      `)}
  </pre>
`;

export function ImportErrors() {
  return html`
    <${Page}
      title="Import errors"
      lead="DAG files that cannot be read, and how long reading each of them takes."
    >
      <${Tabs}
        tabs=${[
          ["errors", "Errors"],
          ["files", "Files"],
        ]}
      />
      ${query.value.tab === "files" ? html`<${Files} />` : html`<${Errors} />`}
    <//>
  `;
}

function Errors() {
  const list = useList("import-errors", {}, { kinds: ["dag"] });
  const items = list.items.value;
  if (!items.length && list.error.value)
    return html`
      <${Card}>
        <${Failure} error=${list.error.value} retry=${list.reload} />
      <//>
    `;
  if (!items.length && list.loading.value)
    return html`
      <${Card}>
        <${Loading} />
      <//>
    `;
  if (!items.length)
    return html`
      <${Card}>
        <${Empty} title="Every file can be read">
          When a DAG file breaks, its error stands here; the DAGs of its last good version stay.
        <//>
      <//>
    `;
  return html`
    <div class="stack">
      <${Stale} error=${list.error.value} />
      ${items.map((one) => html`
        <${Card}
          key=${one.file}
          title=${
            html`<code>
              ${one.file}
              ${one.line ? `:${one.line}` : ""}
            </code>`
          }
          actions=${
            html`<span class="faint">
              read <${When} at=${one.parsed_at} ago />
            </span>`
          }
        >
          <div class="stack">
            <p class="wrong-line">${one.error}</p>
            ${one.code_frame && html`<${Frame} text=${one.code_frame} />`}
            ${one.dag_ids.length > 0 && html`
              <p class="row soft">
                Its DAGs run as they were before: <${DagLinks} ids=${one.dag_ids} />
              </p>
            `}
            ${one.traceback && html`<${Folded} title="Traceback" text=${one.traceback} />`}
          </div>
        <//>
      `)}
      ${list.more.value && html`
        <button class="button start" onClick=${() => list.next()}>
          Show more
        </button>
      `}
    </div>
  `;
}

const DagLinks = ({ ids }) => html`
  <span class="row near">
    ${ids.map((id) => html`
      <${Link} to=${path("dags", id)}>
        <${Tag}>${id}<//>
      <//>
    `)}
  </span>
`;

function Files() {
  const { failed } = query.value;
  const list = useList(
    "files",
    { failed: failed === "true" || failed === "false" ? failed : null },
    { kinds: ["dag"], calm: 1500 },
  );
  const columns = [
    { head: "File", cell: (f) => html`<code>${f.file}</code>` },
    {
      head: "DAGs",
      cell: (f) => (f.dag_ids.length ? html`<${DagLinks} ids=${f.dag_ids} />` : html`<span class="faint">none</span>`),
    },
    { head: "Last read", cell: (f) => html`<${When} at=${f.parsed_at} ago none="never" />` },
    { head: "Took", right: true, cell: (f) => html`<${Duration} seconds=${f.seconds} />` },
    {
      head: "Became",
      cell: (f) =>
        f.has_error ? html`
          <${Link} to="/import-errors">
            <${Tag} kind="danger">✕ error<//>
          <//>
        ` : html`
          <${Tag} kind="good">✓ read<//>
        `,
    },
    {
      head: "Warnings",
      cell: (f) =>
        f.warnings.length ? html`
          <${Folded}
            title=${`${f.warnings.length} ${f.warnings.length === 1 ? "warning" : "warnings"}`}
            text=${f.warnings.join("\n")}
          />
        ` : html`
          <span class="faint">–</span>
        `,
    },
  ];
  const empty = html`
    <${Empty}
      title=${failed ? "No file is like this" : "No DAG file yet"}
      command=${failed ? null : "aiosched init demo"}
    >
      ${failed
        ? "Take the filter away to see all."
        : "Put a DAG file into the DAGs folder: it appears here when it is parsed."}
    <//>
  `;
  return html`
    <div class="stack tight">
      <${Choices}
        name="failed"
        label="What became of it"
        options=${[
          ["true", "with errors"],
          ["false", "without errors"],
        ]}
      />
      <${Card} plain>
        <${Table} columns=${columns} list=${list} keyOf=${(f) => f.file} empty=${empty} caption="DAG files" />
      <//>
    </div>
  `;
}
