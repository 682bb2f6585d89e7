// Teams, and the folders whose DAG files are theirs.
import { html, useState } from "../../lib/html.js";
import { at, post, remove } from "../../lib/api.js";
import { useDraft } from "../../lib/drafts.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty } from "../../parts/basics.js";
import { Confirm, commandLine } from "../../parts/dialog.js";
import { Table } from "../../parts/table.js";
import { TextField } from "./grants.js";

/** @typedef {Api["TeamResource"]} Team */

export function Teams() {
  /** @type {List<Team>} */
  const list = useList("teams");
  const [open, setOpen] = useState(/** @type {[action: string, team?: Team] | null} */ (null));
  const [act, team] = open ?? [];
  const Dialog = act && DIALOGS[act];
  return html`
    <div class="stack tight">
      <div class="row">
        <button class="button primary" onClick=${() => setOpen(["new"])}>
          New team …
        </button>
      </div>
      <${Card} plain>
        <${Table}
          columns=${columnsOf(setOpen)}
          list=${list}
          keyOf=${(team) => team.name}
          empty=${html`<${Empty} title="No teams yet" command="aiosched teams create TEAM --folder FOLDER" />`}
          caption="Teams"
        />
      <//>
      ${Dialog && html`<${Dialog} team=${team} onClose=${() => setOpen(null)} onDone=${list.reload} />`}
    </div>
  `;
}

/**
 * @param {(open: [action: string, team?: Team]) => void} setOpen
 * @returns {Column<Team>[]}
 */
const columnsOf = (setOpen) => [
  { head: "Team", cell: (team) => team.name },
  {
    head: "Folders",
    cell: (team) =>
      team.folders.map((folder) => html`
        <code>${folder || "."}</code>${" "}
      `),
  },
  { head: "DAGs", cell: (team) => team.dags },
  { head: "Description", cell: (team) => team.description },
  {
    head: "",
    cell: (team) => html`
      <span class="row near">
        <button class="button small" onClick=${() => setOpen(["folder", team])}>
          Add folder …
        </button>
        <button
          class="button small danger"
          aria-label=${`Delete ${team.name}`}
          onClick=${() => setOpen(["delete", team])}
        >
          Delete …
        </button>
      </span>
    `,
  },
];

/** @param {DialogProps} props */
function NewTeam({ onClose, onDone }) {
  const [name, setName] = useDraft(["team"], "");
  const [folder, setFolder] = useDraft(["team", "folder"], "");
  return html`
    <${Confirm}
      title="New team"
      submitLabel="Add"
      act=${() => post("teams", { name, folders: [folder] })}
      done=${`Team ${name} created.`}
      disabled=${!name || !folder}
      cli=${commandLine("teams create", [name || "TEAM"], "--folder", folder || "FOLDER")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${TextField} id="t-name" label="Name" value=${name} onInput=${setName} />
      <${TextField} id="t-folder" label="Folder of its DAG files" value=${folder} onInput=${setFolder} />
    <//>
  `;
}

/** @param {DialogProps & { team: Team }} props */
function AddFolder({ team, onClose, onDone }) {
  const [folder, setFolder] = useDraft(["folder", team.name], "");
  return html`
    <${Confirm}
      title=${`A folder of ${team.name}`}
      submitLabel="Add"
      act=${() => post(`${at("teams", team.name)}/folders`, { folder })}
      done=${`DAGs in ${folder} now belong to ${team.name}.`}
      disabled=${!folder}
      cli=${commandLine("teams add-folder", [team.name, folder || "FOLDER"])}
      onClose=${onClose}
      onDone=${onDone}
    >
      <${TextField} id="t-folder" label="Folder" value=${folder} onInput=${setFolder} />
    <//>
  `;
}

/** @param {DialogProps & { team: Team }} props */
function DeleteTeam({ team, onClose, onDone }) {
  return html`
    <${Confirm}
      title=${`Delete ${team.name}`}
      submitLabel="Delete"
      danger
      act=${() => remove(at("teams", team.name))}
      done=${`${team.name} deleted.`}
      cli=${commandLine("teams delete", [team.name], "--yes")}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>Its DAGs are kept without a team; grants for it no longer have an effect.</p>
    <//>
  `;
}

/** @type {Record<string, Function>} */
const DIALOGS = { new: NewTeam, folder: AddFolder, delete: DeleteTeam };
