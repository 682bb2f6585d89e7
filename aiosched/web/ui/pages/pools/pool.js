// One pool: how full it is, changing it, and what holds it or waits for it.
import { html, useState } from "../../lib/html.js";
import { at, put, remove, useResource } from "../../lib/api.js";
import { taskName, taskPath } from "../../lib/names.js";
import { query, setQuery } from "../../lib/router.js";
import { duration } from "../../lib/time.js";
import { Failure, Link, Loading, Tag } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Allowed, Parts } from "../../parts/facts.js";

export const LIVE = { kinds: ["pool", "run"] }; // slots change hands with the states of runs' tasks

const slots = (n) => (n < 0 ? "no limit" : n === 1 ? "1 slot" : `${n} slots`);

/** @param {{ pool: Api["Pool"], reload: () => void }} props */
export function Pool({ pool, reload }) {
  const [open, setOpen] = useState(null);
  const [wanted, setWanted] = useState(null);
  const chosen = query.value.pool === pool.name;
  const close = () => setOpen(null);
  const next = wanted === null || wanted === "" ? pool.slots : Number(wanted);
  const resized = () => {
    setWanted(null);
    reload();
  };
  return html`
    <section class="card pool" aria-label=${`Pool ${pool.name}`}>
      <div class="body">
        <div class="row apart">
          <h2>
            ${pool.name} ${isFull(pool) && html`<${Tag} kind="warn">${pool.slots === 0 ? "closed" : "full"}<//>`}${" "}
            ${pool.include_deferred && html`<${Tag}>deferred tasks keep their slots<//>`}
          </h2>
          <${Actions} pool=${pool} wanted=${wanted} setWanted=${setWanted} next=${next} setOpen=${setOpen} />
        </div>
        <${Gauge} pool=${pool} />
        ${pool.description && html`<p class="soft">${pool.description}</p>`}
        <button
          class="button small quiet start"
          aria-expanded=${chosen}
          onClick=${() => setQuery({ pool: chosen ? null : pool.name })}
        >
          ${chosen ? "▾" : "▸"} Who holds, who waits
        </button>
        ${chosen && html`<${Queue} name=${pool.name} />`}
      </div>
      ${open === "slots" && html`<${ResizeDialog} pool=${pool} next=${next} onClose=${close} onDone=${resized} />`}
      ${open === "edit" && html`<${PoolDialog} pool=${pool} onClose=${close} onDone=${reload} />`}
      ${open === "delete" && html`<${DeleteDialog} pool=${pool} onClose=${close} onDone=${reload} />`}
    </section>
  `;
}

const isFull = (pool) => pool.slots >= 0 && (pool.open ?? 0) <= 0;

/** @param {Props<{ pool: Api["Pool"] }>} props */
function Actions({ pool, wanted, setWanted, next, setOpen }) {
  const change = next !== pool.slots && Number.isInteger(next) && next >= -1;
  const stays = pool.name === "default_pool";
  const onSubmit = (event) => {
    event.preventDefault();
    if (change) setOpen("slots");
  };
  return html`
    <div class="row">
      <${Allowed} role="admin" quiet>
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
              title="-1 is without limit, 0 lets nothing run"
            />
          </label>
          <button class="button small" disabled=${!change}>
            Set
          </button>
        </form>
        <button class="button small quiet" onClick=${() => setOpen("edit")}>
          Edit …
        </button>
        <button
          class="button small quiet"
          onClick=${() => setOpen("delete")}
          disabled=${stays}
          title=${stays ? "The default pool stays" : ""}
        >
          Delete …
        </button>
      <//>
    </div>
  `;
}

/**
 * How full it is.
 * @param {Props<{ pool: Api["Pool"] }>} props
 */
function Gauge({ pool }) {
  const unlimited = pool.slots < 0;
  const share = unlimited ? (pool.used ? 0.02 : 0) : pool.slots ? Math.min(pool.used / pool.slots, 1) : 1;
  const parts = [
    { share, name: isFull(pool) ? "state-up_for_retry" : "state-running", words: `${pool.used} used` },
  ];
  const rest = unlimited ? "of no limit used" : `of ${pool.slots} used, ${Math.max(pool.open ?? 0, 0)} open`;
  return html`
    <div class="gauge">
      <${Parts} label=${`${pool.used} of ${slots(pool.slots)} used`} parts=${parts} />
      <span class="tabular nowrap">
        <b>${pool.used}</b> <span class="soft">${rest}</span>
      </span>
    </div>
  `;
}

/** @param {Props<{ pool: Api["Pool"] }>} props */
function ResizeDialog({ pool, next, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Pool ${pool.name}`}
      words=${`Set ${next}`}
      act=${() => put(at("pools", pool.name), { slots: next })}
      done=${`Pool ${pool.name} has ${slots(next)}.`}
      cli=${commandLine("pools", "set", pool.name, next)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        <b>${slots(pool.slots)}</b> become <b>${slots(next)}</b>. ${resizeWords(pool.used, next)}
      </p>
    <//>
  `;
}

function resizeWords(used, next) {
  if (next < 0) return "As many tasks as like may hold slots.";
  if (next >= used) return `${used} are in use; ${next - used} will be open.`;
  return `${used} are in use: what holds them goes on, and nothing new starts until fewer than ${next} are used.`;
}

/** @param {Props<{ pool: Api["Pool"] }>} props */
function DeleteDialog({ pool, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Delete pool ${pool.name}`}
      words="Delete"
      danger
      act=${() => remove(at("pools", pool.name))}
      done=${`Pool ${pool.name} is gone.`}
      cli=${commandLine("pools", "delete", pool.name, "--yes")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>A pool that tasks of a DAG name, or that holds tasks, is not deleted.</p>
    <//>
  `;
}

export function PoolDialog({ pool, onClose, onDone }) {
  const [draft, setDraft] = useState({
    name: pool?.name ?? "",
    slots: pool?.slots ?? 8,
    description: pool?.description ?? "",
    include_deferred: pool?.include_deferred ?? false,
  });
  const set = (change) => setDraft({ ...draft, ...change });
  const { name, ...wish } = { ...draft, slots: Number(draft.slots) };
  return html`
    <${Confirm}
      title=${pool ? `Pool ${pool.name}` : "New pool"}
      words="Save"
      act=${() => put(at("pools", name), wish)}
      done=${`Pool ${name} is saved.`}
      disabled=${!name || !Number.isInteger(wish.slots)}
      cli=${commandLine(
        "pools",
        "set",
        name || "POOL",
        wish.slots,
        wish.description,
        wish.include_deferred ? "--include-deferred" : "",
      )}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${!pool && html`
        <div class="field">
          <label for="pool-name">Name</label>
          <input
            class="input"
            id="pool-name"
            required
            maxlength="250"
            value=${draft.name}
            onInput=${(e) => set({ name: e.target.value })}
          />
        </div>
      `}
      <div class="field">
        <label for="pool-slots">Slots</label>
        <input
          class="input"
          id="pool-slots"
          type="number"
          min="-1"
          value=${draft.slots}
          onInput=${(e) => set({ slots: e.target.value })}
        />
        <span class="help">-1 is without limit, 0 lets nothing run.</span>
      </div>
      <div class="field">
        <label for="pool-words">Description</label>
        <input
          class="input"
          id="pool-words"
          maxlength="1000"
          value=${draft.description}
          onInput=${(e) => set({ description: e.target.value })}
        />
      </div>
      <label class="row">
        <input
          type="checkbox"
          checked=${draft.include_deferred}
          onChange=${(e) => set({ include_deferred: e.target.checked })}
        />${" "}
        Deferred tasks keep their slots
      </label>
    <//>
  `;
}

function Queue({ name }) {
  const found = useResource(`${at("pools", name)}/queue`, {}, LIVE);
  if (found.error.value) return html`<${Failure} error=${found.error.value} retry=${found.reload} />`;
  if (!found.data.value) return html`<${Loading} lines=${2} />`;
  const { holders, items, next_cursor } = found.data.value;
  const List = (title, list, none) => html`
    <div>
      <h3>${title}</h3>
      ${list.length ? html`
        <ol class="plain queue">
          ${list.map((one) => html`
            <li class="row apart">
              <span class="clip">
                <${Link} to=${taskPath(one)}>${taskName(one)}<//>${" "}
                <span class="faint">
                  ${one.dag_id} · ${one.run_id}
                </span>
              </span>
              <span class="soft tabular nowrap">
                ${one.slots > 1 ? `${one.slots} slots, ` : ""}
                ${one.seconds !== null && one.seconds !== undefined ? duration(one.seconds) : ""}
              </span>
            </li>
          `)}
        </ol>
      ` : html`
        <p class="faint">${none}</p>
      `}
    </div>
  `;
  return html`
    <div class="columns">
      ${List("Holds", holders, "Nobody holds a slot.")}
      ${List(`Waits, first to last${next_cursor ? ` (the first ${items.length})` : ""}`, items, "Nobody waits.")}
    </div>
  `;
}
