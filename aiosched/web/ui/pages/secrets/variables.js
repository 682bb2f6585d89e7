// Variables: the list, and saving one.
import { html, useState } from "../../lib/html.js";
import { at, get, put } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { ConfirmDeletion, Meanwhile, useMeanwhile } from "../../parts/condition.js";
import { useList, useResource } from "../../lib/resources.js";
import { Card, Empty, Shown } from "../../parts/basics.js";
import { diffOf } from "../../lib/lines.js";
import { Diff } from "../../parts/diff.js";
import { Confirm, Dialog, commandLine } from "../../parts/dialog.js";
import { Allowed } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";
import { Changed, Input, itemActions } from "./fields.js";

/** @type {Record<string, string>} */
const HIDDEN = {
  role: "Values are for the role editor",
  secret: "A secret: stored, never shown",
  unreadable: "No key of this server decrypts it",
};

/** @param {{ variable: Api["VariableResource"] }} props */
const Value = ({ variable: { value, hidden } }) =>
  hidden === "long" ? html`
    <span class="faint">long: see Edit</span>
  ` : value === null ? html`
    <span class="faint" title=${HIDDEN[hidden ?? ""]}>
      ${hidden === "unreadable" ? "not readable" : "••••••"}
    </span>
  ` : html`
    <code class="value" title=${value}>
      ${value}
    </code>
  `;

export function Variables() {
  /** @type {List<Api["VariableResource"]>} */
  const list = useList("variables");
  const [open, setOpen] = useState(
    /** @type {import("./fields.js").Open<Api["VariableResource"]> | null} */ (null),
  );
  /** @type {Column<Api["VariableResource"]>[]} */
  const columns = [
    { head: "Key", cell: (v) => html`<code>${v.key}</code>` },
    { head: "Value", cell: (v) => html`<${Value} variable=${v} />` },
    { head: "Description", cell: (v) => v.description || html`<span class="faint">–</span>` },
    { head: "Team", cell: (v) => v.team ?? html`<span class="faint">–</span>` },
    { head: "Changed", cell: (v) => html`<${Changed} item=${v} kind="variable" name=${v.key} />` },
    { head: "", cell: (v) => itemActions(v, v.key, setOpen, isEditable(v) ? "Edit" : "Replace") },
  ];
  const close = () => setOpen(null);
  return html`
    <div class="stack tight">
      <div class="row">
        <${Allowed} role="editor">
          <button class="button primary" onClick=${() => setOpen(["set", null])}>
            New variable …
          </button>
        <//>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          keyOf=${(v) => v.key}
          empty=${
            html`<${Empty} title="No variables" command="aiosched variables set KEY VALUE">
              DAGs read variables by key.
            <//>`
          }
          caption="Variables"
        />
      <//>
      ${open?.[0] === "set" && html`<${VariableDialog} variable=${open[1]} onClose=${close} onDone=${list.reload} />`}
      ${open?.[0] === "delete" && html`
        <${ConfirmDeletion}
          title=${`Delete variable ${open[1].key}`}
          place=${at("variables", open[1].key)}
          read=${open[1]}
          done=${`Variable ${open[1].key} deleted.`}
          cli=${commandLine("variables delete", [open[1].key], "--yes")}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>DAGs that read it will fail unless they provide a default.</p>
        <//>
      `}
    </div>
  `;
}

/**
 * Whether the stored value is in the form to begin with.
 * @param {Api["VariableResource"] | null} variable
 */
const isEditable = (variable) => variable !== null && (variable.hidden === null || variable.hidden === "long");

/** @param {Api["VariableResource"] | null} variable */
const draftOf = (variable) => ({
  key: variable?.key ?? "",
  value: (isEditable(variable) && variable?.value) || "",
  description: variable?.description ?? "",
  is_secret: variable?.is_secret ?? false,
});

/** @param {DialogProps & { variable: Api["VariableResource"] | null }} props */
function VariableDialog({ variable, onClose, onDone }) {
  /** @type {Resource<Api["VariableResource"]>} */
  const stored = useResource(variable && isEditable(variable) ? at("variables", variable.key) : null);
  const now = stored.data.value;
  if (!isEditable(variable) || now)
    return html`<${Form} variable=${now ?? variable} onClose=${onClose} onDone=${onDone} />`;
  return html`
    <${Dialog} title=${`Edit variable ${variable?.key}`} onClose=${onClose}>
      <${Shown} of=${stored}>${() => null}<//>
    <//>
  `;
}

/** @param {DialogProps & { variable: Api["VariableResource"] | null }} props */
function Form({ variable: first, onClose, onDone }) {
  const { known: variable, theirs, save } = useMeanwhile(first, () => get(at("variables", first?.key ?? "")));
  const before = isEditable(variable) ? (variable?.value ?? null) : null;
  const known = draftOf(variable);
  const [draft, setDraft] = useDraft(["variable", known.key], known, ["value"]);
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { key, value, description, is_secret: isSecret } = draft;
  const words = [
    ...(description || known.description ? ["--description", description] : []),
    ...(isSecret === known.is_secret ? [] : [isSecret ? "--secret" : "--no-secret"]),
  ];
  const isSame = before === value && known.description === description && known.is_secret === isSecret;
  return html`
    <${Confirm}
      title=${variable ? `${before === null ? "Replace" : "Edit"} variable ${variable.key}` : "New variable"}
      submitLabel="Save"
      act=${() =>
        save((options) => put(at("variables", key), { value, description, is_secret: isSecret }, options))
      }
      done=${`Variable ${key} saved.`}
      disabled=${!key || !value || isSame}
      cli=${`${commandLine("variables set", [key || "KEY", "-"], ...words)} < file`}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${!variable && html`
        <${Input}
          draft=${draft}
          set=${set}
          name="key"
          words="Key"
          required
          maxlength="250"
          autocomplete="off"
        />
      `}
      <div class="field">
        <label for="s-value">Value</label>
        <textarea
          class="input"
          id="s-value"
          rows="4"
          autocomplete="off"
          spellcheck="false"
          value=${value}
          onInput=${(e) => set({ value: e.target.value })}
        />
        <span class="help">
          Text or JSON.
          ${variable && before === null && " Replaces the stored value, which cannot be read back here."} For an
          empty one: <code>${commandLine("variables set", [key || "KEY", ""])}</code>
        </span>
      </div>
      ${before !== null && before !== value && html`<${Diff} text=${diffOf(before, value)} choose=${false} />`}
      <${Input} draft=${draft} set=${set} name="description" words="Description" maxlength="1000" />
      <div class="field">
        <label class="row near">
          <input type="checkbox" checked=${isSecret} onChange=${(e) => set({ is_secret: e.target.checked })} />A
          secret: never shown
        </label>
        <span class="help">
          With a word such as password, token or api_key in its name it is one in any case.
        </span>
      </div>
      <${Meanwhile} theirs=${theirs && known} mine=${draft} onTake=${setDraft} />
    <//>
  `;
}
