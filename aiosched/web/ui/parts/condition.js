// Changes of what others may change at the same time (RFC 9110, 13.1): nothing of theirs is overwritten unseen.
import { get, remove } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { Confirm, toast } from "./dialog.js";

/**
 * Options of a change: of what is still as it was read in `before`, or only of what exists; without it, only of what
 * does not exist.
 * @param {{ etag?: string } | null | undefined} before
 */
export const onlyIf = (before) => ({
  headers: before ? { "If-Match": before.etag ? `"${before.etag}"` : "*" } : { "If-None-Match": "*" },
});

/**
 * For a dialog that changes the item `before`, or creates one if there is none: `save(write)` gives `write` the options
 * and what was read last. If somebody else has changed it since, `theirs` is read, and the next `save` is of that.
 * @template Item
 * @param {Item | null | undefined} before
 * @param {() => Promise<Item>} read
 */
export function useMeanwhile(before, read) {
  const [theirs, setTheirs] = useState(/** @type {Item | null} */ (null));
  const known = theirs ?? before;
  /** @param {(options: { headers: object }, known: Item | null | undefined) => Promise<any>} write */
  const save = async (write) => {
    try {
      return await write(onlyIf(/** @type {any} */ (known)), known);
    } catch (problem) {
      if (before && [409, 412].includes(problem.status)) {
        const found = await read().catch(() => null);
        if (found && JSON.stringify(found) !== JSON.stringify(known)) setTheirs(found);
      }
      throw problem;
    }
  };
  return { known, theirs, save };
}

/**
 * Confirms that what was `read` is deleted at its `place`. If somebody else has changed it since, it says who, and is
 * about what is stored now.
 * @param {Omit<import("./dialog.js").ConfirmProps, "submitLabel" | "danger" | "act"> &
 *   { place: string, read: { etag: string }, submitLabel?: string, before?: () => void }} props
 */
export function ConfirmDeletion({ place, read, submitLabel = "Delete", before, ...props }) {
  const { save } = useMeanwhile(read, () => get(place));
  const act = () => {
    before?.();
    return save((options) => remove(place, options));
  };
  return html`<${Confirm} ...${props} submitLabel=${submitLabel} danger act=${act} />`;
}

/**
 * What somebody else has stored beside what was typed, where they differ.
 * @param {{ theirs: Record<string, any> | null, mine: Record<string, any>,
 *   onTake: (theirs: any) => void }} props
 */
export function Meanwhile({ theirs, mine, onTake }) {
  const names = Object.keys(theirs ?? {}).filter((name) => String(theirs?.[name]) !== String(mine[name]));
  if (!names.length) return null;
  return html`
    <div class="field" role="group" aria-label="Stored meanwhile">
      <div class="scroll preview" tabindex="0" role="group" aria-label="Differences">
        <table class="table">
          <thead>
            <tr>
              <th>Field</th>
              <th>Stored now</th>
              <th>Yours</th>
            </tr>
          </thead>
          <tbody>
            ${names.map((name) => html`
              <tr key=${name}>
                <th scope="row">${name.replaceAll("_", " ")}</th>
                <td>
                  <${Text} of=${theirs?.[name]} />
                </td>
                <td>
                  <${Text} of=${mine[name]} />
                </td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      <div class="row">
        <button
          type="button"
          class="button small"
          onClick=${() => (onTake(theirs), toast("The form has what is stored now."))}
        >
          Take what is stored
        </button>
        <span class="help">Or save again: yours replaces it.</span>
      </div>
    </div>
  `;
}

/** @param {{ of: any }} props */
const Text = ({ of: value }) =>
  value === "" ? html`<span class="faint">none</span>` : html`<code class="value">${String(value)}</code>`;
