// What is asked before a pool is changed or deleted.
import { html, useState } from "../../lib/html.js";
import { at, put, remove } from "../../lib/api.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { slots } from "./words.js";

/** @param {Props<{ pool: Api["Pool"] }>} props */
export function ResizeDialog({ pool, next, onClose, onDone }) {
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
export function DeleteDialog({ pool, onClose, onDone }) {
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
