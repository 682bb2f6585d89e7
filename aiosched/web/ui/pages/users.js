// People who may log in, and tokens of programs. A token is shown once, when it is made.
import { html, useState } from "../lib/html.js";
import { at, may, me, patch, post, remove, useList } from "../lib/api.js";
import { query } from "../lib/router.js";
import { Card, Empty, Notice, Page, Tabs, Tag, When } from "../parts/basics.js";
import { Confirm, Dialog, commandLine } from "../parts/dialog.js";
import { Text } from "../parts/facts.js";
import { Table } from "../parts/table.js";

const ROLES = [
  ["viewer", "viewer: sees"],
  ["operator", "operator: sees and acts"],
  ["admin", "admin: also pools, secrets, people"],
];
const RoleField = ({ value, onChange, roles = ROLES }) => html`
  <div class="field">
    <label for="u-role">Role</label>
    <select class="input" id="u-role" value=${value} onChange=${(e) => onChange(e.target.value)}>
      ${roles.map(([name, words]) => html`
        <option value=${name}>${words}</option>
      `)}
    </select>
  </div>
`;
const PasswordField = ({ value, onInput }) => html`
  <div class="field">
    <label for="u-password">Password</label>
    <input
      class="input"
      id="u-password"
      type="password"
      minlength="8"
      required
      autocomplete="new-password"
      value=${value}
      onInput=${(e) => onInput(e.target.value)}
    />
    <span class="help">At least 8 characters.</span>
  </div>
`;

export function Users() {
  const people = may("admin");
  const tab = query.value.tab || (people ? "users" : "tokens");
  return html`
    <${Page} title="Users and tokens">
      ${me.value.login === "none" && html`
        <${Notice}>
          This server needs no login: everybody who reaches it is an administrator. Set${" "}
          <code>web.auth = "password"</code> to change that.
        <//>
      `}
      <${Tabs}
        tabs=${
          people
            ? [
                ["users", "Users"],
                ["tokens", "Tokens"],
              ]
            : [["tokens", "Tokens"]]
        }
      />
      ${tab === "users" && people ? html`<${People} />` : html`<${Tokens} />`}
    <//>
  `;
}

function People() {
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

function Tokens() {
  const list = useList("tokens", { everybody: may("admin") || null });
  const [open, setOpen] = useState(null);
  const [made, setMade] = useState(null);
  const close = () => setOpen(null);
  const columns = [
    { head: "For", cell: (t) => t.label },
    { head: "Owner", cell: (t) => t.owner },
    { head: "Role", cell: (t) => html`<${Tag}>${t.role}<//>` },
    { head: "Made", cell: (t) => html`<${When} at=${t.created_at} />` },
    { head: "Expires", cell: (t) => html`<${When} at=${t.expires_at} ago none="never" />` },
    { head: "Last used", cell: (t) => html`<${When} at=${t.last_used_at} ago none="never" />` },
    {
      head: "",
      cell: (t) => html`
        <button class="button small danger" aria-label=${`Revoke ${t.label}`} onClick=${() => setOpen(t)}>
          Revoke …
        </button>
      `,
    },
  ];
  const login = me.value.login !== "none";
  return html`
    <div class="stack tight">
      <div class="row">
        ${login ? html`
          <button class="button primary" onClick=${() => setOpen("new")}>
            New token …
          </button>
        ` : html`
          <span class="faint">Tokens belong to people: without a login there is nobody to own one.</span>
        `}
      </div>
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          keyOf=${(t) => t.id}
          empty=${html`<${Empty} title="No token">Programs use tokens in place of a password.<//>`}
          caption="Tokens"
        />
      <//>
      ${open === "new" && html`
        <${NewToken}
          onClose=${close}
          onDone=${(answer) => {
            setMade(answer);
            list.reload();
          }}
        />
      `}
      ${open && open !== "new" && html`
        <${Confirm}
          title=${`Revoke the token for ${open.label}`}
          words="Revoke"
          danger
          act=${() => remove(at("tokens", open.id))}
          done="The token is revoked."
          cli=${commandLine("tokens", "revoke", open.id)}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>Programs that use it are turned away from now on.</p>
        <//>
      `}
      ${made && html`
        <${Dialog} title="Your new token" onClose=${() => setMade(null)}>
          <${Notice} kind="warn">Copy it now: it is shown this once.<//>
          <${Text} text=${made.token} />
          <div class="actions">
            <button class="button primary" onClick=${() => setMade(null)}>
              I have it
            </button>
          </div>
        <//>
      `}
    </div>
  `;
}

function NewToken({ onClose, onDone }) {
  const [draft, setDraft] = useState({ label: "", role: "viewer", days: "90" });
  const set = (change) => setDraft({ ...draft, ...change });
  const days = draft.days === "" ? null : Number(draft.days);
  return html`
    <${Confirm}
      title="New token"
      words="Make"
      act=${() => post("tokens", { ...draft, days })}
      done="The token is made."
      disabled=${!draft.label || (days <= 0 && days !== null)}
      cli=${commandLine(
        "tokens",
        "create",
        me.value.name,
        "--label",
        draft.label || "LABEL",
        "--role",
        draft.role,
        "--days",
        days ?? 0,
      )}
      onClose=${onClose}
      onDone=${onDone}
    >
      <div class="field">
        <label for="t-label">What it is for</label>
        <input
          class="input"
          id="t-label"
          required
          maxlength="200"
          value=${draft.label}
          onInput=${(e) => set({ label: e.target.value })}
        />
      </div>
      <${RoleField}
        value=${draft.role}
        roles=${ROLES.filter(([name]) => may(name))}
        onChange=${(role) => set({ role })}
      />
      <div class="field">
        <label for="t-days">Days until it expires</label>
        <input
          class="input"
          id="t-days"
          type="number"
          min="1"
          max="3650"
          value=${draft.days}
          onInput=${(e) => set({ days: e.target.value })}
        />
        <span class="help">Empty: never.</span>
      </div>
    <//>
  `;
}
