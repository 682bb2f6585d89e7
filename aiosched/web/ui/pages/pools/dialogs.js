// Dialogs for creating, changing and deleting pools.
import { html } from "../../lib/html.js";
import { at, get, put } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { query, setQuery } from "../../lib/router.js";
import { ConfirmDeletion, Meanwhile, useMeanwhile } from "../../parts/condition.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { slots } from "./words.js";

/**
 * The dialog that is open, and of which pool; "slots" with the new number.
 * @typedef {["new"] | ["edit" | "delete", Api["PoolResource"]] | ["slots", Api["PoolResource"], number]} Open
 */

/**
 * @typedef {{ name: string, slots: number | string, rate: string, description: string, include_deferred: boolean }}
 *   Draft
 */

/** @param {DialogProps & { pool: Api["PoolResource"], next: number }} props */
export function ResizeDialog({ pool: before, next, onClose, onDone }) {
  const { known: pool, save } = useMeanwhile(before, () => get(at("pools", before.name)));
  return html`
    <${Confirm}
      title=${`Pool ${pool.name}`}
      submitLabel=${`Set ${next}`}
      act=${() => save((options) => put(at("pools", pool.name), { slots: next }, options))}
      done=${`Pool ${pool.name} has ${slots(next)}.`}
      cli=${commandLine("pools set", [pool.name, next])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        <b>${slots(pool.slots)}</b> become <b>${slots(next)}</b>. ${resizeWords(pool.used, next)}
      </p>
    <//>
  `;
}

/**
 * @param {number} used
 * @param {number} next
 */
function resizeWords(used, next) {
  if (next < 0) return "There is no limit on how many tasks may hold slots.";
  if (next >= used) return `${used} in use; ${next - used} will be open.`;
  return `${used} in use: tasks that hold slots continue, and no new ones start until fewer than ${next} are in use.`;
}

/** @param {DialogProps & { pool: Api["PoolResource"] }} props */
export function DeleteDialog({ pool, onClose, onDone }) {
  const close = () => query.value.pool === pool.name && setQuery({ pool: null }); // its queue would be read again: 404
  return html`
    <${ConfirmDeletion}
      title=${`Delete pool ${pool.name}`}
      place=${at("pools", pool.name)}
      read=${pool}
      before=${close}
      done=${`Pool ${pool.name} deleted.`}
      cli=${commandLine("pools delete", [pool.name], "--yes")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>A pool that a DAG's tasks use, or that holds tasks, cannot be deleted.</p>
    <//>
  `;
}

/**
 * @param {DialogProps & { pool?: Api["PoolResource"] }} props
 */
export function PoolDialog({ pool, onClose, onDone }) {
  const [draft, setDraft] = useDraft(["pool", pool?.name], draftOf(pool));
  const { theirs, save } = useMeanwhile(pool, () => get(at("pools", pool?.name ?? "")));
  /** @param {Partial<Draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { name, ...body } = { ...draft, slots: draft.slots === "" ? NaN : Number(draft.slots) };
  return html`
    <${Confirm}
      title=${pool ? `Pool ${pool.name}` : "New pool"}
      submitLabel="Save"
      act=${() => save((options) => put(at("pools", name), body, options))}
      done=${`Pool ${name} saved.`}
      disabled=${!name || !Number.isInteger(body.slots)}
      cli=${commandLine(
        "pools set",
        [
          name || "POOL",
          draft.slots === "" ? "SLOTS" : body.slots,
          body.description || (pool?.description ? "" : null),
        ],
        body.include_deferred ? "--include-deferred" : pool?.include_deferred && "--no-include-deferred",
        body.rate || pool?.rate ? `--rate=${body.rate}` : null,
      )}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${Fields} draft=${draft} set=${set} isNew=${!pool} />
      <${Meanwhile} theirs=${theirs && draftOf(theirs)} mine=${draft} onTake=${setDraft} />
    <//>
  `;
}

/**
 * @param {Api["PoolResource"] | undefined} pool
 * @returns {Draft}
 */
const draftOf = (pool) => ({
  name: pool?.name ?? "",
  slots: pool?.slots ?? 8,
  rate: pool?.rate ?? "",
  description: pool?.description ?? "",
  include_deferred: pool?.include_deferred ?? false,
});

/** @param {{ draft: Draft, set: (change: Partial<Draft>) => void, isNew: boolean }} props */
function Fields({ draft, set, isNew }) {
  return html`
    ${isNew && html`
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
      <span class="help">-1: unlimited, 0: nothing runs.</span>
    </div>
    <div class="field">
      <label for="pool-rate">Rate</label>
      <input
        class="input"
        id="pool-rate"
        maxlength="50"
        placeholder="100/min"
        value=${draft.rate}
        onInput=${(e) => set({ rate: e.target.value })}
      />
      <span class="help">Most starts per period: 100/min, 5/30s, 1000/day. Empty: no limit.</span>
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
  `;
}
