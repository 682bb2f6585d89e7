// Pools: used slots, holders and queue; slots can be changed in place, after a confirmation.
import { html, useState } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { Card, Failure, Loading, Page } from "../parts/basics.js";
import { Allowed } from "../parts/facts.js";
import { PoolDialog } from "./pools/dialogs.js";
import { Pool } from "./pools/pool.js";
import { LIVE } from "./pools/words.js";

export function Pools() {
  /** @type {List<Api["PoolResource"]>} */
  const list = useList("pools", {}, LIVE);
  const [creating, setCreating] = useState(false);
  const items = list.items.value;
  return html`
    <${Page}
      title="Pools"
      lead="A pool limits concurrency: a task instance holds slots while it is queued or running."
      actions=${
        html`<${Allowed} role="editor">
          <button class="button primary" onClick=${() => setCreating(true)}>
            New pool …
          </button>
        <//>`
      }
    >
      ${list.error.value ? html`
        <${Card}>
          <${Failure} error=${list.error.value} retry=${list.reload} />
        <//>
      ` : !items.length && list.loading.value ? html`
        <${Card}>
          <${Loading} />
        <//>
      ` : html`
        <div class="stack">
          ${items.map((pool) => html`
            <${Pool} key=${pool.name} pool=${pool} reload=${list.reload} />
          `)}
        </div>
      `}
      ${list.more.value && html`
        <button class="button" onClick=${() => list.next()}>
          Show more
        </button>
      `}
      ${creating && html`<${PoolDialog} onClose=${() => setCreating(false)} onDone=${list.reload} />`}
    <//>
  `;
}
