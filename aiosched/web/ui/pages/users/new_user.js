// The dialog that creates a person or a service account.
import { html } from "../../lib/html.js";
import { post } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { PasswordField, RoleField, USER_ROLES } from "./fields.js";

/** @param {DialogProps} props */
export function NewUser({ onClose, onDone }) {
  const [draft, setDraft] = useDraft(["user"], { name: "", role: "viewer", kind: "person", password: "" });
  const isService = draft.kind === "service";
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  return html`
    <${Confirm}
      title="New user"
      submitLabel="Add"
      act=${() => post("users", { ...draft, password: isService ? null : draft.password })}
      done=${`User ${draft.name} created.`}
      disabled=${!draft.name || (!isService && draft.password.length < 8)}
      cli=${commandLine("users create", [draft.name || "NAME"], "--role", draft.role, isService && "--service")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <div class="field">
        <label for="u-name">Name</label>
        <input
          class="input"
          id="u-name"
          required
          autocomplete="off"
          value=${draft.name}
          onInput=${(e) => set({ name: e.target.value })}
        />
      </div>
      <${RoleField} value=${draft.role} roles=${USER_ROLES} onChange=${(role) => set({ role })} />
      <label class="row">
        <input
          type="checkbox"
          checked=${isService}
          onChange=${(e) => set({ kind: e.target.checked ? "service" : "person" })}
        />
        Service account: only has tokens, and cannot log in
      </label>
      ${!isService && html`<${PasswordField} value=${draft.password} onInput=${(password) => set({ password })} />`}
    <//>
  `;
}
