// API tokens. A token is shown only once, when it is created.
import { html, useState } from "../../lib/html.js";
import { at, may, mayEverywhere, me, post, remove } from "../../lib/api.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty, Notice, Tag, When } from "../../parts/basics.js";
import { Confirm, Dialog, commandLine } from "../../parts/dialog.js";
import { Text } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";
import { ROLES, RoleField } from "./fields.js";

export function Tokens() {
  /** @type {List<Api["Token"]>} */
  const list = useList("tokens", { everybody: mayEverywhere("admin") || null });
  const [open, setOpen] = useState(/** @type {Api["Token"] | "new" | null} */ (null));
  const [created, setCreated] = useState(/** @type {Api["MadeToken"] | null} */ (null));
  const close = () => setOpen(null);
  const login = me.value?.login !== "none";
  return html`
    <div class="stack tight">
      <div class="row">
        ${login ? html`
          <button class="button primary" onClick=${() => setOpen("new")}>
            New token …
          </button>
        ` : html`
          <span class="faint">Tokens belong to users: without login there is no user to own one.</span>
        `}
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(t) => t.id}
          empty=${html`<${Empty} title="No tokens">Programs use tokens instead of a password.<//>`}
          caption="Tokens"
        />
      <//>
      ${open === "new" && html`
        <${NewToken}
          onClose=${close}
          onDone=${(response) => {
            setCreated(response);
            list.reload();
          }}
        />
      `}
      ${open && open !== "new" && html`<${RevokeDialog} token=${open} onClose=${close} onDone=${list.reload} />`}
      ${created && html`<${Created} token=${created.token} onClose=${() => setCreated(null)} />`}
    </div>
  `;
}

/**
 * @param {(token: Api["Token"]) => void} revoke
 * @returns {Column<Api["Token"]>[]}
 */
const columnsOf = (revoke) => [
  { head: "Label", cell: (t) => t.label },
  { head: "Owner", cell: (t) => t.owner },
  { head: "Role", cell: (t) => html`<${Tag}>${t.role}<//>` },
  { head: "Created", cell: (t) => html`<${When} at=${t.created_at} />` },
  { head: "Expires", cell: (t) => html`<${When} at=${t.expires_at} ago none="never" />` },
  { head: "Last used", cell: (t) => html`<${When} at=${t.last_used_at} ago none="never" />` },
  {
    head: "",
    cell: (t) => html`
      <button class="button small danger" aria-label=${`Revoke ${t.label}`} onClick=${() => revoke(t)}>
        Revoke …
      </button>
    `,
  },
];

/** @param {DialogProps & { token: Api["Token"] }} props */
function RevokeDialog({ token, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Revoke token ${token.label}`}
      submitLabel="Revoke"
      danger
      act=${() => remove(at("tokens", token.id))}
      done="Token revoked."
      cli=${commandLine("tokens", "revoke", token.id)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Programs that use it lose access immediately.</p>
    <//>
  `;
}

/** @param {{ token: string, onClose: () => void }} props */
function Created({ token, onClose }) {
  return html`
    <${Dialog} title="Your new token" onClose=${onClose}>
      <${Notice} kind="warn">Copy it now: it is shown only once.<//>
      <${Text} text=${token} />
      <div class="actions">
        <button class="button primary" onClick=${onClose}>
          Done
        </button>
      </div>
    <//>
  `;
}

/** @param {DialogProps} props */
function NewToken({ onClose, onDone }) {
  const [draft, setDraft] = useState({ label: "", role: "viewer", days: "90" });
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const days = draft.days === "" ? null : Number(draft.days);
  return html`
    <${Confirm}
      title="New token"
      submitLabel="Create"
      act=${() => post("tokens", { ...draft, days })}
      done="Token created."
      disabled=${!draft.label || (days !== null && days <= 0)}
      cli=${commandLine(
        "tokens",
        "create",
        me.value?.name,
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
        <label for="t-label">Label</label>
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
        <span class="help">Leave empty for no expiry.</span>
      </div>
    <//>
  `;
}
