// Connections: the list, and setting one. Passwords are never shown.
import { html, useState } from "../../lib/html.js";
import { at, put, remove, useList } from "../../lib/api.js";
import { Input, acts } from "./fields.js";
import { Card, Empty, Notice, Tag, When } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Allowed, objectOf } from "../../parts/facts.js";
import { Table } from "../../parts/table.js";

export function Connections() {
  const list = useList("connections");
  const [open, setOpen] = useState(null);
  const columns = [
    { head: "Id", cell: (c) => html`<code>${c.conn_id}</code>` },
    { head: "Type", cell: (c) => html`<${Tag}>${c.conn_type}<//>` },
    { head: "Description", cell: (c) => c.description || html`<span class="faint">–</span>` },
    { head: "Made", cell: (c) => html`<${When} at=${c.created_at} />` },
    { head: "", cell: (c) => acts(c, c.conn_id, setOpen) },
  ];
  const close = () => setOpen(null);
  return html`
    <div class="stack tight">
      <div class="row">
        <${Allowed} role="admin">
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
            html`<${Empty} title="No connection" command="aiosched connections set ID --uri URI">
              DAGs find their databases and services by connections.
            <//>`
          }
          caption="Connections"
        />
      <//>
      ${open?.[0] === "set" && html`<${ConnectionDialog} connection=${open[1]} onClose=${close} onDone=${list.reload} />`}
      ${open?.[0] === "delete" && html`
        <${Confirm}
          title=${`Delete connection ${open[1].conn_id}`}
          words="Delete"
          danger
          act=${() => remove(at("connections", open[1].conn_id))}
          done=${`Connection ${open[1].conn_id} is gone.`}
          cli=${commandLine("connections", "delete", open[1].conn_id, "--yes")}
          onClose=${close}
          onDone=${list.reload}
        >
          <p>Tasks that use it fail.</p>
        <//>
      `}
    </div>
  `;
}

function ConnectionDialog({ connection, onClose, onDone }) {
  const [draft, setDraft] = useState({
    conn_id: connection?.conn_id ?? "",
    conn_type: connection?.conn_type ?? "",
    host: "",
    port: "",
    login: "",
    password: "",
    schema: "",
    extra: "",
    description: connection?.description ?? "",
  });
  const set = (change) => setDraft({ ...draft, ...change });
  const { value: extra, wrong } = objectOf(draft.extra);
  const text = (name) => draft[name] || null;
  const body = {
    conn_type: draft.conn_type,
    host: text("host"),
    login: text("login"),
    password: text("password"),
    port: draft.port ? Number(draft.port) : null,
    schema: text("schema"),
    extra,
    description: text("description"),
  };
  const given = [
    ["--type", draft.conn_type],
    ["--host", draft.host],
    ["--port", draft.port],
    ["--login", draft.login],
    ["--schema", draft.schema],
  ]
    .filter(([, value]) => value)
    .flat();
  return html`
    <${Confirm}
      title=${connection ? `Replace connection ${connection.conn_id}` : "New connection"}
      words="Store"
      act=${() => put(at("connections", draft.conn_id), body)}
      done=${`Connection ${draft.conn_id} is stored.`}
      disabled=${!draft.conn_id || !draft.conn_type || Boolean(wrong)}
      cli=${commandLine(
        "connections",
        "set",
        draft.conn_id || "ID",
        ...given,
        ...(draft.password ? ["--password", "-"] : []),
      )}
      onClose=${onClose}
      onDone=${onDone}
    >
      ${connection && html`<${Notice} kind="warn">It is replaced as a whole: write every field again.<//>`}
      <div class="columns close">
        ${!connection && html`
          <${Input}
            draft=${draft}
            set=${set}
            name="conn_id"
            words="Id"
            required
            maxlength="250"
            autocomplete="off"
          />
        `}
        <${Input} draft=${draft} set=${set} name="conn_type" words="Type" required placeholder="postgres" />
        <${Input} draft=${draft} set=${set} name="host" words="Host" />
        <${Input} draft=${draft} set=${set} name="port" words="Port" type="number" min="1" max="65535" />
        <${Input} draft=${draft} set=${set} name="login" words="Login" autocomplete="off" />
        <${Input}
          draft=${draft}
          set=${set}
          name="password"
          words="Password"
          type="password"
          autocomplete="new-password"
        />
        <${Input} draft=${draft} set=${set} name="schema" words="Schema or database" />
      </div>
      <div class="field">
        <label for="s-extra">Extra</label>
        <textarea
          class="input"
          id="s-extra"
          rows="2"
          placeholder="{}"
          value=${draft.extra}
          onInput=${(e) => set({ extra: e.target.value })}
        />
        ${wrong && html`<span class="wrong">${wrong}</span>`}
      </div>
      <${Input} draft=${draft} set=${set} name="description" words="Description" maxlength="1000" />
    <//>
  `;
}
