// The browsers in which the user is logged in; each can be logged out from here.
import { html, useState } from "../../lib/html.js";
import { at, me, remove } from "../../lib/api.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty, Tag, When } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";

/** @typedef {Api["SessionResource"]} Session */

export function Sessions() {
  /** @type {List<Session>} */
  const list = useList("sessions", {});
  const [open, setOpen] = useState(/** @type {Session | "others" | null} */ (null));
  const handlers = { onClose: () => setOpen(null), onDone: list.reload };
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button" onClick=${() => setOpen("others")}>
          Log out everywhere else …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(session) => session.id}
          empty=${html`<${Empty} title="No sessions">This server requires no login, or a token was used.<//>`}
          caption="Sessions"
        />
      <//>
      ${open === "others" && html`<${EndOthers} ...${handlers} />`}
      ${open && open !== "others" && html`<${EndOne} session=${open} ...${handlers} />`}
    </div>
  `;
}

/**
 * @param {(session: Session) => void} end
 * @returns {Column<Session>[]}
 */
const columnsOf = (end) => [
  {
    head: "Browser",
    cell: (session) => html`
      ${session.agent || "unknown"} ${session.is_current && html`<${Tag}>this one<//>`}
    `,
  },
  { head: "Address", cell: (session) => html`<code>${session.address}</code>` },
  { head: "Logged in", cell: (session) => html`<${When} at=${session.created_at} ago />` },
  { head: "Last used", cell: (session) => html`<${When} at=${session.last_used_at} ago />` },
  { head: "Ends", cell: (session) => html`<${When} at=${session.expires_at} ago />` },
  {
    head: "",
    cell: (session) => html`
      <button
        class="button small danger"
        aria-label=${`Log out session ${session.id}`}
        onClick=${() => end(session)}
      >
        Log out …
      </button>
    `,
  },
];

/** @param {DialogProps & { session: Session }} props */
function EndOne({ session, onClose, onDone }) {
  return html`
    <${Confirm}
      title="Log this browser out"
      submitLabel="Log out"
      danger
      act=${() => remove(at("sessions", session.id))}
      done="Logged out."
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        ${session.agent || "An unknown browser"}, logged in from ${session.address}.
      </p>
    <//>
  `;
}

/** @param {DialogProps} props */
function EndOthers({ onClose, onDone }) {
  return html`
    <${Confirm}
      title="Log out everywhere else"
      submitLabel="Log out"
      danger
      act=${() => remove("sessions")}
      done="All other sessions and logins have ended."
      cli=${commandLine("users log-out", [me.value?.name])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>This browser stays logged in (the command ends its session, too), and tokens for programs go on.</p>
    <//>
  `;
}
