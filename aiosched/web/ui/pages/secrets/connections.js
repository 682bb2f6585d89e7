// Connections: the list, and saving one. Passwords are never shown.
import { html, useState } from "../../lib/html.js";
import { at, get, put } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { ConfirmDeletion, Meanwhile, useMeanwhile } from "../../parts/condition.js";
import { useList, useResource } from "../../lib/resources.js";
import { Card, Empty, Notice, Tag } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Allowed, objectOf } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";
import { Changed, Input, itemActions } from "./fields.js";

export function Connections() {
  /** @type {List<Api["ConnectionResource"]>} */
  const list = useList("connections");
  const [open, setOpen] = useState(
    /** @type {import("./fields.js").Open<Api["ConnectionResource"]> | null} */ (null),
  );
  /** @type {Column<Api["ConnectionResource"]>[]} */
  const columns = [
    { head: "Id", cell: (c) => html`<code>${c.conn_id}</code>` },
    { head: "Type", cell: (c) => html`<${Tag}>${c.conn_type}<//>` },
    { head: "Description", cell: (c) => c.description || html`<span class="faint">–</span>` },
    { head: "Team", cell: (c) => c.team ?? html`<span class="faint">–</span>` },
    { head: "Changed", cell: (c) => html`<${Changed} item=${c} kind="connection" name=${c.conn_id} />` },
    { head: "", cell: (c) => itemActions(c, c.conn_id, setOpen) },
  ];
  const close = () => setOpen(null);
  return html`
    <div class="stack tight">
      <div class="row">
        <${Allowed} role="editor">
          <button class="button primary" onClick=${() => setOpen(["set", null])}>
            New connection …
          </button>
        <//>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columns}
          list=${list}
          keyOf=${(c) => c.conn_id}
          empty=${
            html`<${Empty} title="No connections" command="aiosched connections set ID --uri URI">
              DAGs use connections to reach databases and services.
            <//>`
          }
          caption="Connections"
        />
      <//>
      ${open?.[0] === "set" && html`
        <${ConnectionDialog} connection=${open[1]} onClose=${close} onDone=${list.reload} />
      `}
      ${open?.[0] === "delete" && html`
        <${ConfirmDeletion}
          title=${`Delete connection ${open[1].conn_id}`}
          place=${at("connections", open[1].conn_id)}
          read=${open[1]}
          done=${`Connection ${open[1].conn_id} deleted.`}
          cli=${commandLine("connections delete", [open[1].conn_id], "--yes")}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>Tasks that use it will fail.</p>
        <//>
      `}
    </div>
  `;
}

const EMPTY = {
  conn_id: "",
  conn_type: "",
  host: "",
  port: "",
  login: "",
  password: "",
  schema: "",
  extra: "",
  description: "",
};

/** @typedef {typeof EMPTY} Draft */

/** @param {DialogProps & { connection: Api["ConnectionResource"] | null }} props */
function ConnectionDialog({ connection, onClose, onDone }) {
  const known = shownOf(connection);
  const [draft, setDraft] = useDraft(["connection", known.conn_id], { ...EMPTY, ...known }, [
    "password",
    "extra",
  ]);
  /** @param {Partial<Draft>} change */
  const set = (change) => setDraft({ ...draft, ...change });
  const { theirs, save } = useMeanwhile(connection, () => get(at("connections", known.conn_id)));
  const { value: extra, wrong } = objectOf(draft.extra);
  /** @type {Resource<Api["Page_ConnectionTypeResource_"]>} */
  const types = useResource("connection-types");
  const knownTypes = types.data.value?.items ?? [];
  const form = { draft, set, types: knownTypes, type: knownTypes.find((one) => one.name === draft.conn_type) };
  return html`
    <${Confirm}
      title=${connection ? `Replace connection ${connection.conn_id}` : "New connection"}
      submitLabel="Save"
      act=${() => save((options) => put(at("connections", draft.conn_id), bodyOf(draft, extra ?? {}), options))}
      done=${`Connection ${draft.conn_id} saved.`}
      disabled=${
        !draft.conn_id || !draft.conn_type || Boolean(wrong) || (connection !== null && !isFilled(draft))
      }
      cli=${commandOf(draft, extra ?? {}, !connection)}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${connection && html`
        <${Notice} kind="warn">The whole connection is replaced: fill in every field again.<//>
      `}
      <${Fields} ...${form} isNew=${!connection} />
      <${Extra} ...${form} wrong=${wrong} />
      <${Input} draft=${draft} set=${set} name="description" words="Description" maxlength="1000" />
      <${Meanwhile} theirs=${theirs && shownOf(theirs)} mine=${draft} onTake=${set} />
    <//>
  `;
}

/**
 * What people see of a connection.
 * @param {Api["ConnectionResource"] | null} connection
 */
const shownOf = (connection) => ({
  conn_id: connection?.conn_id ?? "",
  conn_type: connection?.conn_type ?? "",
  description: connection?.description ?? "",
});

/**
 * Whether there is more than what the list shows: else a change of the description would take all other fields away.
 * @param {Draft} draft
 */
const isFilled = ({ host, port, login, password, schema, extra }) =>
  Boolean(host || port || login || password || schema || extra);

/**
 * @typedef {{ draft: Draft, set: (change: Partial<Draft>) => void, types: Api["ConnectionTypeResource"][],
 *   type?: Api["ConnectionTypeResource"] }} FormProps `type` is the chosen one, if a provider has it
 */

/**
 * The fields as the provider of the type names them, without those that mean nothing for the type.
 * @param {FormProps & { isNew: boolean }} props
 */
function Fields({ draft, set, types, type, isNew }) {
  const form = { draft, set };
  /**
   * @param {keyof Draft} name
   * @param {string} words
   * @param {Record<string, unknown>} [rest]
   */
  const field = (name, words, rest = {}) =>
    type?.hidden.includes(name) ? null : html`
      <${Input}
        ...${form}
        name=${name}
        words=${type?.labels[name] ?? words}
        placeholder=${type?.placeholders[name]}
        ...${rest}
      />
    `;
  return html`
    <div class="columns close">
      ${isNew && html`<${Input} ...${form} name="conn_id" words="Id" required maxlength="250" autocomplete="off" />`}
      <${Input} ...${form} name="conn_type" words="Type" required placeholder="postgres" list="s-types" />
      <datalist id="s-types">
        ${types.map((one) => html`
          <option key=${one.name} value=${one.name}>
            ${one.title}
          </option>
        `)}
      </datalist>
      ${field("host", "Host")}
      ${field("port", "Port", { type: "number", min: "1", max: "65535" })}
      ${field("login", "Login", { autocomplete: "off" })}
      ${field("password", "Password", { type: "password", autocomplete: "new-password" })}
      ${field("schema", "Schema or database")}
    </div>
  `;
}

/** @param {FormProps & { wrong?: string }} props */
function Extra({ draft, set, type, wrong }) {
  return html`
    <div class="field">
      <label for="s-extra">Extra</label>
      <textarea
        class="input"
        id="s-extra"
        rows="2"
        placeholder=${type?.placeholders.extra ?? "{}"}
        value=${draft.extra}
        onInput=${(e) => set({ extra: e.target.value })}
      />
      ${wrong && html`<span class="wrong">${wrong}</span>`}
    </div>
  `;
}

/**
 * @param {Draft} draft
 * @param {Record<string, unknown>} extra
 * @returns {Api["NewConnection"]}
 */
const bodyOf = (draft, extra) => ({
  conn_type: draft.conn_type,
  host: draft.host || null,
  login: draft.login || null,
  password: draft.password || null,
  port: draft.port ? Number(draft.port) : null,
  schema: draft.schema || null,
  extra,
  description: draft.description || null,
});

/**
 * The command prompts for the password, to keep it out of the command line.
 * @param {Draft} draft
 * @param {Record<string, unknown>} extra
 * @param {boolean} isNew else all fields are replaced, as by the button
 */
function commandOf(draft, extra, isNew) {
  const { conn_type, host, login, schema, description } = draft;
  const fields = { conn_type, host, port: Number(draft.port), login, schema, description };
  const filled = Object.entries(fields).filter(([, value]) => value);
  const document = { ...Object.fromEntries(filled), ...(Object.keys(extra).length && { extra }) };
  const password = draft.password ? ["--password", "-"] : [];
  const id = draft.conn_id || "ID";
  if (!isNew) return commandLine("connections set", [id], "--json", JSON.stringify(document), ...password);
  const options = Object.entries(document).flatMap(([name, value]) => [
    `--${name.replace("conn_", "")}`,
    typeof value === "object" ? JSON.stringify(value) : value,
  ]);
  return commandLine("connections add", [id], ...options, ...password);
}
