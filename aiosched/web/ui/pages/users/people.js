// The list of users.
import { html, useState } from "../../lib/html.js";
import { at, get, me, patch } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty, Tag, When } from "../../parts/basics.js";
import { ConfirmDeletion, Meanwhile, useMeanwhile } from "../../parts/condition.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";
import { RoleField, USER_ROLES } from "./fields.js";
import { NewUser } from "./new_user.js";
import { Created, NewToken } from "./tokens.js";

/** @type {Record<string, string>} */
const KINDS = { service: "service account", local: "this machine" };

/**
 * Opens the dialog of an action, of a user unless it makes one.
 * @typedef {(open: [action: string, user?: Api["User"]]) => void} SetOpen
 */

export function UserList() {
  /** @type {List<Api["User"]>} */
  const list = useList("users");
  const [open, setOpen] = useState(/** @type {[action: string, user?: Api["User"]] | null} */ (null));
  const [created, setCreated] = useState(/** @type {Api["MadeToken"] | null} */ (null));
  /** @param {any} made */
  const done = (made) => (act === "token" ? setCreated(made) : list.reload());
  const empty = html`<${Empty} title="No users yet" command="aiosched users create NAME --role admin" />`;
  const [act, user] = open ?? [];
  const Dialog = act && DIALOGS[act];
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button primary" onClick=${() => setOpen(["new"])}>
          New user …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(u) => u.name}
          empty=${empty}
          caption="Users"
        />
      <//>
      ${Dialog && html`<${Dialog} user=${user} onClose=${() => setOpen(null)} onDone=${done} />`}
      ${created && html`<${Created} token=${created.token} onClose=${() => setCreated(null)} />`}
    </div>
  `;
}

/**
 * @param {SetOpen} setOpen
 * @returns {Column<Api["User"]>[]}
 */
const columnsOf = (setOpen) => [
  {
    head: "Name",
    cell: (u) => html`
      ${u.name} ${u.name === me.value?.name && html`<span class="faint">you</span>`}
    `,
  },
  { head: "Role", cell: (u) => html`<${Tag}>${u.role}<//>` },
  {
    head: "",
    cell: (u) => html`
      ${u.is_disabled && html`<${Tag} kind="danger">disabled<//>`}${" "}
      ${KINDS[u.kind] && html`<span class="faint">${KINDS[u.kind]}</span>`}
      ${u.kind === "person" && !u.has_password && html`
        <span class="faint" title=${u.issuer ?? ""}>
          logs in with the organisation
        </span>
      `}
    `,
  },
  { head: "Created", cell: (u) => html`<${When} at=${u.created_at} ago />` },
  { head: "", cell: (u) => html`<${Actions} user=${u} setOpen=${setOpen} />` },
];

/** @param {{ user: Api["User"], setOpen: SetOpen }} props */
function Actions({ user, setOpen }) {
  return html`
    <span class="row near">
      ${user.kind === "service" && html`
        <button
          class="button small"
          aria-label=${`New token for ${user.name}`}
          onClick=${() => setOpen(["token", user])}
        >
          New token …
        </button>
      `}
      <button
        class="button small"
        aria-label=${`Change ${user.name}`}
        onClick=${() => setOpen(["change", user])}
      >
        Change …
      </button>
      <button class="button small" onClick=${() => setOpen(["disable", user])}>
        ${user.is_disabled ? "Enable …" : "Disable …"}
      </button>
      <button
        class="button small danger"
        aria-label=${`Delete ${user.name}`}
        onClick=${() => setOpen(["delete", user])}
      >
        Delete …
      </button>
    </span>
  `;
}

/**
 * Enable or disable a user.
 * @param {DialogProps & { user: Api["User"] }} props
 */
function DisableDialog({ user, onClose, onDone }) {
  const [words, verb, done] = user.is_disabled
    ? ["Enable", "enable", "enabled"]
    : ["Disable", "disable", "disabled"];
  const effect = user.is_disabled
    ? "They can log in again."
    : "Their sessions end immediately and their tokens stop working; nothing is deleted.";
  return html`
    <${Confirm}
      title=${`${words} ${user.name}`}
      submitLabel=${words}
      danger=${!user.is_disabled}
      act=${() => patch(at("users", user.name), { is_disabled: !user.is_disabled })}
      done=${`${user.name} is ${done}.`}
      cli=${commandLine(`users ${verb}`, [user.name])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>${effect}</p>
    <//>
  `;
}

/** @param {DialogProps & { user: Api["User"] }} props */
function DeleteDialog({ user, onClose, onDone }) {
  return html`
    <${ConfirmDeletion}
      title=${`Delete ${user.name}`}
      place=${at("users", user.name)}
      read=${user}
      done=${`${user.name} deleted.`}
      cli=${commandLine("users delete", [user.name], "--yes")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Their sessions end and their tokens are deleted.</p>
    <//>
  `;
}

/** @param {DialogProps & { user: Api["User"] }} props */
function ChangeUser({ user: before, onClose, onDone }) {
  const { known, theirs, save } = useMeanwhile(before, () => get(at("users", before.name)));
  const user = known ?? before;
  const [role, setRole] = useDraft(["role", user.name], user.role);
  const [password, setPassword] = useState("");
  const change = { ...(role !== user.role && { role }), ...(password && { password }) };
  return html`
    <${Confirm}
      title=${`Change ${user.name}`}
      submitLabel="Save"
      act=${() => save((options) => patch(at("users", user.name), change, options))}
      done=${`${user.name} updated.`}
      disabled=${!Object.keys(change).length || (password && password.length < 8)}
      cli=${[
        (role !== user.role || !password) && commandLine("users role", [user.name, role]),
        password && commandLine("users password", [user.name]),
      ]
        .filter(Boolean)
        .join(" && ")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${RoleField} value=${role} roles=${USER_ROLES} onChange=${setRole} />
      <${Meanwhile}
        theirs=${theirs && { role: theirs.role }}
        mine=${{ role }}
        onTake=${(/** @type {{ role: string }} */ stored) => setRole(stored.role)}
      />
      ${user.kind === "person" && html`
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
          <span class="help">Leave empty to keep the password.</span>
        </div>
      `}
      <p class="help">
        Any change ends all sessions of ${user.name}; a password that is not your own also ends the tokens.
      </p>
    <//>
  `;
}

/** @param {DialogProps & { user: Api["User"] }} props */
const TokenDialog = ({ user, ...handlers }) => html`<${NewToken} owner=${user} ...${handlers} />`;

/** @type {Record<string, Function>} */
const DIALOGS = {
  new: NewUser,
  change: ChangeUser,
  disable: DisableDialog,
  delete: DeleteDialog,
  token: TokenDialog,
};
