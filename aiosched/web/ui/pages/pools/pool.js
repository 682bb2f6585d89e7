// One pool: usage, editing, slot holders and queue.
import { html, useEffect, useState } from "../../lib/html.js";
import { query, setQuery } from "../../lib/router.js";
import { Tag } from "../../parts/basics.js";
import { Allowed, Parts } from "../../parts/facts.js";
import { PoolHistory } from "./history.js";
import { Queue } from "./queue.js";
import { slots } from "./words.js";

/**
 * @param {{ pool: Api["PoolResource"], starving: Api["StarvingResource"][],
 *   setOpen: (open: import("./dialogs.js").Open) => void }} props
 */
export function Pool({ pool, starving, setOpen }) {
  const chosen = query.value.pool === pool.name;
  return html`
    <section class="card pool" aria-label=${`Pool ${pool.name}`}>
      <div class="body">
        <div class="row apart">
          <h2>
            ${pool.name} ${isFull(pool) && html`<${Tag} kind="warn">${pool.slots === 0 ? "closed" : "full"}<//>`}${" "}
            ${pool.rate && html`<${Tag}>at most ${pool.rate}<//>`}${" "}
            ${pool.include_deferred && html`<${Tag}>deferred tasks keep their slots<//>`}
          </h2>
          <${Actions} pool=${pool} setOpen=${setOpen} />
        </div>
        <${Gauge} pool=${pool} />
        ${starving
          .filter((one) => one.exists && one.name === pool.name)
          .map(({ words }) => html`
            <p class="late sentence">${words}</p>
          `)}
        ${pool.description && html`<p class="soft">${pool.description}</p>`}
        <button
          class="button small quiet start"
          aria-expanded=${chosen}
          onClick=${() => setQuery({ pool: chosen ? null : pool.name })}
        >
          ${chosen ? "▾" : "▸"} Slot holders, queue and history
        </button>
        ${chosen && html`
          <${Queue} name=${pool.name} />
          <${PoolHistory} name=${pool.name} />
        `}
      </div>
    </section>
  `;
}

/** @param {Api["PoolResource"]} pool */
const isFull = (pool) => pool.slots >= 0 && (pool.open ?? 0) <= 0;

/** @param {{ pool: Api["PoolResource"], setOpen: (open: import("./dialogs.js").Open) => void }} props */
function Actions({ pool, setOpen }) {
  const [wanted, setWanted] = useState(/** @type {string | null} */ (null));
  const next = wanted === null || wanted === "" ? pool.slots : Number(wanted);
  useEffect(() => {
    if (next === pool.slots) setWanted(null); // it is what the pool has now
  }, [pool.slots]);
  const change = next !== pool.slots && Number.isInteger(next) && next >= -1;
  const isDefault = pool.name === "default_pool";
  /** @param {Event} event */
  const onSubmit = (event) => {
    event.preventDefault();
    if (change) setOpen(["slots", pool, next]);
  };
  return html`
    <div class="row">
      <${Allowed} role="editor" quiet>
        <form class="row near" onSubmit=${onSubmit}>
          <label class="soft">
            Slots${" "}
            <input
              class="input short"
              type="number"
              min="-1"
              step="1"
              value=${wanted ?? pool.slots}
              onInput=${(e) => setWanted(e.target.value)}
              title="-1: unlimited, 0: nothing runs"
            />
          </label>
          <button class="button small" disabled=${!change}>
            Set
          </button>
        </form>
        <button class="button small quiet" onClick=${() => setOpen(["edit", pool])}>
          Edit …
        </button>
        <button
          class="button small quiet"
          onClick=${() => setOpen(["delete", pool])}
          disabled=${isDefault}
          title=${isDefault ? "The default pool cannot be deleted" : ""}
        >
          Delete …
        </button>
      <//>
    </div>
  `;
}

/**
 * The usage of a pool.
 * @param {{ pool: Api["PoolResource"] }} props
 */
function Gauge({ pool }) {
  const unlimited = pool.slots < 0;
  const share = unlimited ? (pool.used ? 0.02 : 0) : pool.slots ? Math.min(pool.used / pool.slots, 1) : 1;
  const parts = [
    { share, name: isFull(pool) ? "state-up_for_retry" : "state-running", words: `${pool.used} used` },
  ];
  const rest = unlimited ? "used, no limit" : `of ${pool.slots} used, ${Math.max(pool.open ?? 0, 0)} open`;
  return html`
    <div class="gauge">
      <${Parts} label=${`${pool.used} of ${slots(pool.slots)} used`} parts=${parts} />
      <span class="tabular nowrap">
        <b>${pool.used}</b> <span class="soft">${rest}</span>
      </span>
    </div>
  `;
}
