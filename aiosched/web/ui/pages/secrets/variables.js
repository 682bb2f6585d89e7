// Variables: the list, and saving one.
import { html, useState } from "../../lib/html.js";
import { at, put, remove } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { onlyIf } from "../../parts/condition.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty, When } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Allowed } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";
import { Input, itemActions } from "./fields.js";

const hidden = () => html`
  <span class="faint" title="Stored, never shown">
    ••••••
  </span>
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
    { head: "Value", cell: hidden },
    { head: "Description", cell: (v) => v.description || html`<span class="faint">–</span>` },
    { head: "Team", cell: (v) => v.team ?? html`<span class="faint">–</span>` },
    { head: "Created", cell: (v) => html`<${When} at=${v.created_at} ago />` },
    { head: "", cell: (v) => itemActions(v, v.key, setOpen) },
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
        <${Confirm}
          title=${`Delete variable ${open[1].key}`}
          submitLabel="Delete"
          danger
          act=${() => remove(at("variables", open[1].key))}
          done=${`Variable ${open[1].key} deleted.`}
          cli=${commandLine("variables", "delete", open[1].key, "--yes")}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>DAGs that read it will fail unless they provide a default.</p>
        <//>
      `}
    </div>
  `;
}

/** @param {DialogProps & { variable: Api["VariableResource"] | null }} props */
function VariableDialog({ variable, onClose, onDone }) {
  const known = { key: variable?.key ?? "", value: "", description: variable?.description ?? "" };
  const [draft, setDraft] = useDraft(["variable", known.key], known, ["value"]);
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const description = draft.description ? ["--description", draft.description] : [];
  return html`
    <${Confirm}
      title=${variable ? `Replace variable ${variable.key}` : "New variable"}
      submitLabel="Save"
      act=${() =>
        put(
          at("variables", draft.key),
          { value: draft.value, description: draft.description },
          onlyIf(variable),
        )
      }
      done=${`Variable ${draft.key} saved.`}
      disabled=${!draft.key || !draft.value}
      cli=${`${commandLine("variables", "set", draft.key || "KEY", "-", ...description)} < file`}
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
          value=${draft.value}
          onInput=${(e) => set({ value: e.target.value })}
        />
        <span class="help">
          Text or JSON. Replaces the stored value; it cannot be read back here. For an empty one:${" "}
          <code>${commandLine("variables", "set", draft.key || "KEY")} ''</code>
        </span>
      </div>
      <${Input} draft=${draft} set=${set} name="description" words="Description" maxlength="1000" />
    <//>
  `;
}
