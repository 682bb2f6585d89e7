// People who may log in.
import { html, useState } from "../../lib/html.js";
import { at, me, patch, post, remove, useList } from "../../lib/api.js";
import { PasswordField, RoleField } from "./fields.js";
import { Card, Empty, Tag, When } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";

export function People() {
  const list = useList("users");
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const columns = [
    {
      head: "Name",
      cell: (u) => html`
          ${u.name} ${u.name === me.value.name && html`<span class="faint">you</span>`}
      `,
    },
    { head: "Role", cell: (u) => html`<${Tag}>${u.role}<//>` },
    {
      head: "",
      cell: (u) => html`
          ${u.is_disabled && html`<${Tag} kind="danger">disabled<//>`}${" "}
          ${!u.has_password && html`<span class="faint">no password</span>`}
      `,
    },
    { head: "Since", cell: (u) => html`<${When} at=${u.created_at} />` },
    {
      head: "",
      cell: (u) => html`
        <span class="row near">
          <button class="button small" aria-label=${`Change ${u.name}`} onClick=${() => setOpen(["change", u])}>
            Change …
          </button>
          <button class="button small" onClick=${() => setOpen(["disable", u])}>
            ${u.is_disabled ? "Enable …" : "Disable …"}
          </button>
          <button
            class="button small danger"
            aria-label=${`Delete ${u.name}`}
            onClick=${() => setOpen(["delete", u])}
          >
            Delete …
          </button>
        </span>
      `,
    },
  ];
  const [act, user] = open ?? [];
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button primary" onClick=${() => setOpen(["new"])}>
          New user …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          keyOf=${(u) => u.name}
          empty=${html`<${Empty} title="Nobody may log in yet" command="aiosched users create NAME --role admin" />`}
          caption="Users"
        />
      <//>
      ${act === "new" && html`<${NewUser} onClose=${close} onDone=${list.reload} />`}
      ${act === "change" && html`<${ChangeUser} user=${user} onClose=${close} onDone=${list.reload} />`}
      ${act === "disable" && html`
        <${Confirm}
          title=${`${user.is_disabled ? "Enable" : "Disable"} ${user.name}`}
          words=${user.is_disabled ? "Enable" : "Disable"}
          danger=${!user.is_disabled}
          act=${() => patch(at("users", user.name), { is_disabled: !user.is_disabled })}
          done=${`${user.name} is ${user.is_disabled ? "enabled" : "disabled"}.`}
          cli=${commandLine("users", user.is_disabled ? "enable" : "disable", user.name)}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>
            ${user.is_disabled
              ? "They can log in again."
              : "Their sessions end at once and their tokens stop working; nothing is removed."}
          </p>
        <//>
      `}
      ${act === "delete" && html`
        <${Confirm}
          title=${`Delete ${user.name}`}
          words="Delete"
          danger
          act=${() => remove(at("users", user.name))}
          done=${`${user.name} is gone.`}
          cli=${commandLine("users", "delete", user.name, "--yes")}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>Their sessions end and their tokens are removed with them.</p>
        <//>
      `}
    </div>
  `;
}

function NewUser({ onClose, onDone }) {
  const [draft, setDraft] = useState({ name: "", role: "viewer", password: "" });
  const set = (change) => setDraft({ ...draft, ...change });
  return html`
    <${Confirm}
      title="New user"
      words="Add"
      act=${() => post("users", draft)}
      done=${`${draft.name} may log in.`}
      disabled=${!draft.name || draft.password.length < 8}
      cli=${commandLine("users", "create", draft.name || "NAME", "--role", draft.role)}
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
      <${RoleField} value=${draft.role} onChange=${(role) => set({ role })} />
      <${PasswordField} value=${draft.password} onInput=${(password) => set({ password })} />
    <//>
  `;
}

function ChangeUser({ user, onClose, onDone }) {
  const [role, setRole] = useState(user.role);
  const [password, setPassword] = useState("");
  const change = { ...(role !== user.role && { role }), ...(password && { password }) };
  return html`
    <${Confirm}
      title=${`Change ${user.name}`}
      words="Save"
      act=${() => patch(at("users", user.name), change)}
      done=${`${user.name} is changed.`}
      disabled=${!Object.keys(change).length || (password && password.length < 8)}
      cli=${password ? commandLine("users", "password", user.name) : commandLine("users", "role", user.name, role)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${RoleField} value=${role} onChange=${setRole} />
      <div class="field">
        <label for="u-new">New password</label>
        <input
          class="input"
          id="u-new"
          type="password"
          autocomplete="new-password"
          value=${password}
          onInput=${(e) => setPassword(e.target.value)}
        />
        <span class="help">Empty: it stays. Any change ends the sessions of ${user.name}.</span>
      </div>
    <//>
  `;
}
