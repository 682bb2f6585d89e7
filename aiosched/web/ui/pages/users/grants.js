// What users may do for some DAGs only: by tag, folder, DAG ids or team.
import { html, useState } from "../../lib/html.js";
import { at, post, remove } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { useList } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { Card, Empty, Tag } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";
import { GRANTED_ROLES, RoleField } from "./fields.js";

/** @typedef {{ user: string, grant: string }} Held */

const COMMAND = "aiosched users grant NAME ROLE --team TEAM";

export function Grants() {
  /** @type {List<Api["User"]>} */
  const list = useList("users");
  const [taken, setTaken] = useState(/** @type {Held | null} */ (null));
  const close = () => (setTaken(null), setQuery({ grant: null }));
  const handlers = { onClose: close, onDone: list.reload };
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button primary" onClick=${() => setQuery({ grant: "1" })}>
          New grant …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setTaken)}
          list=${list}
          keyOf=${(user) => user.name}
          empty=${html`<${Empty} title="No users yet" command=${COMMAND} />`}
          caption="Grants"
        />
      <//>
      ${query.value.grant === "1" && html`<${NewGrant} ...${handlers} />`}
      ${taken && html`<${TakeGrant} held=${taken} ...${handlers} />`}
    </div>
  `;
}

/**
 * @param {(held: Held) => void} take
 * @returns {Column<Api["User"]>[]}
 */
const columnsOf = (take) => [
  { head: "User", cell: (user) => user.name },
  { head: "Everywhere", cell: (user) => html`<${Tag}>${user.role}<//>` },
  {
    head: "For some DAGs",
    cell: (user) => html`
      <span class="row near">
        ${user.grants.map((grant) => html`
          <${GrantChip} held=${{ user: user.name, grant }} take=${take} />
        `)}
      </span>
    `,
  },
  { head: "Groups", cell: (user) => user.groups.join(", ") },
];

/** @param {{ held: Held, take: (held: Held) => void }} props */
const GrantChip = ({ held, take }) => html`
  <button class="button small" aria-label=${`Take ${held.grant} from ${held.user}`} onClick=${() => take(held)}>
    <code>${held.grant}</code> …
  </button>
`;

/** @type {[kind: string, label: string, help: string][]} */
const KINDS = [
  ["team", "Team", "What the team has: its DAGs, pools, variables and connections."],
  ["tag", "Tag", "DAGs with this tag."],
  ["folder", "Folder", "DAGs of files below it: a path in the DAGs folder, or BUNDLE:PATH."],
  ["dags", "DAG ids", "DAGs whose ids match: * stands for anything, ? for one character."],
];

/** @param {DialogProps} props */
function NewGrant({ onClose, onDone }) {
  const [draft, setDraft] = useDraft(["grant"], { user: "", role: "viewer", kind: "team", name: "" });
  /** @param {Partial<typeof draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { user, role, kind, name } = draft;
  return html`
    <${Confirm}
      title="New grant"
      submitLabel="Grant"
      act=${() => post(`${at("users", user)}/grants`, { grant: `${role}@${kind}:${name}` })}
      done=${`${user} is ${role} for ${kind} ${name}.`}
      disabled=${!user || !name}
      cli=${commandLine("users grant", [user || "NAME", role], `--${kind}`, name || "…")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${TextField}
        id="g-user"
        label="User"
        value=${user}
        onInput=${(/** @type {string} */ user) => set({ user })}
      />
      <${RoleField} value=${role} roles=${GRANTED_ROLES} onChange=${(role) => set({ role })} />
      <div class="field">
        <label for="g-kind">For</label>
        <select class="input" id="g-kind" value=${kind} onChange=${(e) => set({ kind: e.target.value })}>
          ${KINDS.map(([each, label]) => html`
            <option value=${each}>${label}</option>
          `)}
        </select>
        <span class="help">${KINDS.find(([each]) => each === kind)?.[2]}</span>
      </div>
      <${TextField}
        id="g-name"
        label="Name"
        value=${name}
        onInput=${(/** @type {string} */ name) => set({ name })}
      />
    <//>
  `;
}

/** @param {{ id: string, label: string, value: string, onInput: (text: string) => void }} props */
export const TextField = ({ id, label, value, onInput }) => html`
  <div class="field">
    <label for=${id}>${label}</label>
    <input
      class="input"
      id=${id}
      required
      autocomplete="off"
      value=${value}
      onInput=${(e) => onInput(e.target.value)}
    />
  </div>
`;

/** @param {DialogProps & { held: Held }} props */
function TakeGrant({ held, onClose, onDone }) {
  const [kind, ...name] = held.grant.split("@").slice(1).join("@").split(":");
  return html`
    <${Confirm}
      title=${`Take a grant from ${held.user}`}
      submitLabel="Take away"
      danger
      act=${() => remove(`${at("users", held.user)}/grants?grant=${encodeURIComponent(held.grant)}`)}
      done=${`${held.user} has no role for ${kind} ${name.join(":")} any more.`}
      cli=${commandLine("users ungrant", [held.user], `--${kind}`, name.join(":"))}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        <code>${held.grant}</code>
      </p>
    <//>
  `;
}
