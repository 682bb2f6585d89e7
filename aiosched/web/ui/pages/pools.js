// Pools: used slots, holders and queue; slots can be changed in place, after a confirmation.
import { html, useEffect, useState } from "../lib/html.js";
import { useList } from "../lib/resources.js";
import { Card, Failure, Loading, Notice, Page, Stale } from "../parts/basics.js";
import { Allowed } from "../parts/facts.js";
import { DeleteDialog, PoolDialog, ResizeDialog } from "./pools/dialogs.js";
import { Pool } from "./pools/pool.js";
import { LIVE } from "./pools/words.js";

export function Pools() {
  /** @type {List<Api["PoolResource"]>} */
  const list = useList("pools", {}, LIVE);
  useEffect(() => {
    const poll = setInterval(() => !document.hidden && list.reload(), 10_000); // what starves comes with heartbeats
    return () => clearInterval(poll);
  }, [list]);
  const [open, setOpen] = useState(/** @type {import("./pools/dialogs.js").Open | null} */ (null));
  const items = list.items.value;
  /** @type {Api["StarvingResource"][]} */
  const starving = list.first.value?.starving ?? [];
  const dialog = { onClose: () => setOpen(null), onDone: list.reload };
  return html`
    <${Page}
      title="Pools"
      lead="A pool limits concurrency: a task instance holds slots while it is queued or running. A rate limits starts."
      actions=${
        html`<${Allowed} role="editor">
          <button class="button primary" onClick=${() => setOpen(["new"])}>
            New pool …
          </button>
        <//>`
      }
    >
      ${!items.length && list.error.value ? html`
        <${Card}>
          <${Failure} error=${list.error.value} retry=${list.reload} />
        <//>
      ` : !items.length && list.loading.value ? html`
        <${Card}>
          <${Loading} />
        <//>
      ` : html`
        <div class="stack">
          <${Stale} error=${list.error.value} />
          ${starving
            .filter((one) => !one.exists)
            .map(({ words }) => html`
              <${Notice} key=${words} kind="warn">
                ${words}
              <//>
            `)}
          ${items.map((pool) => html`
            <${Pool} key=${pool.name} pool=${pool} starving=${starving} setOpen=${setOpen} />
          `)}
        </div>
      `}
      ${list.more.value && html`
        <button class="button" onClick=${() => list.next()}>
          Show more
        </button>
      `}
      ${open?.[0] === "new" && html`<${PoolDialog} ...${dialog} />`}
      ${open?.[0] === "edit" && html`<${PoolDialog} pool=${open[1]} ...${dialog} />`}
      ${open?.[0] === "delete" && html`<${DeleteDialog} pool=${open[1]} ...${dialog} />`}
      ${open?.[0] === "slots" && html`<${ResizeDialog} pool=${open[1]} next=${open[2]} ...${dialog} />`}
    <//>
  `;
}
