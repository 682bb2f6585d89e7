// API tokens. A token is shown only once, when it is created.
import { html, useState } from "../../lib/html.js";
import { at, may, mayEverywhere, me, post, remove } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
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
  {
    head: "Role",
    cell: (t) => html`
      <${Tag}>${t.role}<//> ${t.read_only && html`<${Tag}>read only<//>`}
    `,
  },
  { head: "Created", cell: (t) => html`<${When} at=${t.created_at} ago />` },
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
      cli=${commandLine("tokens revoke", [token.id])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Programs that use it lose access immediately.</p>
    <//>
  `;
}

/** @param {{ token: string, onClose: () => void }} props */
export function Created({ token, onClose }) {
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

/**
 * `owner`: a service account; otherwise the token is one's own.
 * @param {DialogProps & { owner?: Api["User"] }} props
 */
export function NewToken({ owner, onClose, onDone }) {
  const [draft, setDraft] = useDraft(["api access", owner?.name], {
    label: "",
    role: "viewer",
    days: "90",
    read_only: false,
  });
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const days = draft.days === "" ? null : Number(draft.days);
  return html`
    <${Confirm}
      title=${owner ? `New token for ${owner.name}` : "New token"}
      submitLabel="Create"
      act=${() => post("tokens", { ...draft, days, owner: owner?.name ?? null })}
      done="Token created."
      disabled=${!draft.label || (days !== null && days <= 0)}
      cli=${tokenCommand(owner?.name ?? me.value?.name, draft)}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${RoleField}
        value=${draft.role}
        roles=${ROLES.filter(([name]) => may(name))}
        onChange=${(role) => set({ role })}
      />
      <${TokenFields} draft=${draft} set=${set} />
    <//>
  `;
}

/** @typedef {{ label: string, role: string, days: string, read_only: boolean }} TokenDraft */

/**
 * @param {string | undefined} owner
 * @param {TokenDraft} draft
 */
const tokenCommand = (owner, { label, role, days, read_only }) =>
  commandLine(
    "tokens create",
    [owner],
    "--label",
    label || "LABEL",
    "--role",
    role,
    "--days",
    days || 0,
    read_only && "--read-only",
  );

/** @param {{ draft: TokenDraft, set: (change: Partial<TokenDraft>) => void }} props */
const TokenFields = ({ draft, set }) => html`
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
  <label class="row">
    <input
      type="checkbox"
      checked=${draft.read_only}
      onChange=${(e) => set({ read_only: e.target.checked })}
    />
    Read only: it cannot change anything
  </label>
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
    <span class="help">
      Empty: never, if <code>web.max_token_days</code> is 0.
    </span>
  </div>
`;
