// Import errors: the line of the user's file that failed, with the code around it; the traceback is folded.
import { html } from "../lib/html.js";
import { useList } from "../lib/api.js";
import { path } from "../lib/router.js";
import { Card, Empty, Failure, Link, Loading, Page, Tag, When } from "../parts/basics.js";
import { Folded } from "../parts/facts.js";

/** The frame's lines; the marked one stands out. */
export const Frame = ({ text }) => html`<pre class="frame" tabindex="0" aria-label="Code around the error">${text.split("\n").slice(1).map((line) => html`<span class=${line.startsWith(">") ? "at" : /^\s*\|\s*\^/.test(line) ? "point" : ""}>${line + "\n"}</span>`)}</pre>`;

export function ImportErrors() {
  const list = useList("import-errors", {}, { kinds: ["dag"] });
  const items = list.items.value;
  const none = html`<${Card}><${Empty} title="Every file can be read">When a DAG file breaks, its error stands here; the DAGs of its last good version stay.<//><//>`;
  return html`<${Page} title="Import errors">
    ${list.error.value ? html`<${Card}><${Failure} error=${list.error.value} retry=${list.reload} /><//>` : !items.length && list.loading.value ? html`<${Card}><${Loading} /><//>` : !items.length ? none : html`<div class="stack">${items.map((one) => html`
      <${Card} key=${one.file} title=${html`<code>${one.file}${one.line ? `:${one.line}` : ""}</code>`} actions=${html`<span class="faint">read <${When} at=${one.parsed_at} ago /></span>`}>
        <div class="stack">
          <p class="wrong-line">${one.error}</p>
          ${one.code_frame && html`<${Frame} text=${one.code_frame} />`}
          ${one.dag_ids.length > 0 && html`<p class="row soft">Its DAGs run as they were before: ${one.dag_ids.map((id) => html`<${Link} to=${path("dags", id)}><${Tag}>${id}<//><//>`)}</p>`}
          ${one.traceback && html`<${Folded} title="Traceback" text=${one.traceback} />`}
        </div>
      <//>`)}${list.more.value && html`<button class="button" onClick=${() => list.next()}>Show more</button>`}</div>`}
  <//>`;
}
