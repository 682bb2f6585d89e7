// Import errors: the failing line of each file with the code around it; all files with their parse results.
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

/**
 * The code frame, with the failing line highlighted.
 * @param {{ text: string }} props
 */
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
    <${Page} title="Import errors" lead="DAG files that fail to parse, and how long each file takes to parse.">
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
  /** @type {List<Api["ImportProblem"]>} */
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
        <${Empty} title="No import errors">
          When a DAG file fails to parse, the error appears here; its DAGs stay at their last good version.
        <//>
      <//>
    `;
  return html`
    <div class="stack">
      <${Stale} error=${list.error.value} />
      ${items.map((one) => html`
        <${ErrorCard} key=${one.file} one=${one} />
      `)}
      ${list.more.value && html`
        <button class="button start" onClick=${() => list.next()}>
          Show more
        </button>
      `}
    </div>
  `;
}

/** @param {{ one: Api["ImportProblem"] }} props */
function ErrorCard({ one }) {
  const title = html`
    <code>
      ${one.file}
      ${one.line ? `:${one.line}` : ""}
    </code>
  `;
  const parsed = html`
    <span class="faint">
      since <${When} at=${one.since} ago />, parsed <${When} at=${one.parsed_at} ago />
    </span>
  `;
  return html`
    <${Card} title=${title} actions=${parsed}>
      <div class="stack">
        <p class="wrong-line">${one.error}</p>
        ${one.code_frame && html`<${Frame} text=${one.code_frame} />`}
        ${one.dag_ids.length > 0 && html`
          <p class="row soft">
            Still running the last good version: <${DagLinks} ids=${one.dag_ids} />
          </p>
        `}
        ${one.traceback && html`<${Folded} title="Traceback" text=${one.traceback} />`}
      </div>
    <//>
  `;
}

/** @param {{ ids: string[] }} props */
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
  /** @type {List<Api["DagFileResource"]>} */
  const list = useList(
    "files",
    { failed: failed === "true" || failed === "false" ? failed : null },
    { kinds: ["dag"], delay: 1500 },
  );
  const empty = html`
    <${Empty}
      title=${failed ? "No matching files" : "No DAG files yet"}
      command=${failed ? null : "aiosched init demo"}
    >
      ${failed
        ? "Clear the filter to see all files."
        : "Put a DAG file into the DAGs folder: it appears here once parsed."}
    <//>
  `;
  return html`
    <div class="stack tight">
      <${Choices}
        name="failed"
        label="Result"
        options=${[
          ["true", "with errors"],
          ["false", "without errors"],
        ]}
      />
      <${Card} plain>
        <${Table} columns=${COLUMNS} list=${list} keyOf=${(f) => f.file} empty=${empty} caption="DAG files" />
      <//>
    </div>
  `;
}

/** @type {Column<Api["DagFileResource"]>[]} */
const COLUMNS = [
  { head: "File", cell: (f) => html`<code>${f.file}</code>` },
  {
    head: "DAGs",
    cell: (f) => (f.dag_ids.length ? html`<${DagLinks} ids=${f.dag_ids} />` : html`<span class="faint">none</span>`),
  },
  { head: "Last parsed", cell: (f) => html`<${When} at=${f.parsed_at} ago none="never" />` },
  { head: "Duration", right: true, cell: (f) => html`<${Duration} seconds=${f.seconds} />` },
  {
    head: "Result",
    cell: (f) =>
      f.has_error ? html`
        <${Link} to="/import-errors">
          <${Tag} kind="danger">✕ error<//>
        <//>
      ` : html`
        <${Tag} kind="good">✓ parsed<//>
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
