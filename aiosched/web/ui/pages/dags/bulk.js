// Actions on the selected DAGs: pause, unpause, trigger, clear failed tasks; each with one preview of all.
import { html, useEffect, useState } from "../../lib/html.js";
import { at, patch, post } from "../../lib/api.js";
import { Confirm } from "../../parts/dialog.js";

/**
 * An action: what it does with a DAG, and what the preview says about one. `preview` is null for one that it leaves.
 * @typedef {{ title: string, submit: string, done: string, danger?: boolean,
 *   preview: (dag: Api["DagResource"]) => Promise<string | null> | string | null,
 *   act: (dag: Api["DagResource"]) => Promise<Answer> }} BulkAction
 */

/** @type {Record<string, BulkAction>} */
const ACTIONS = {
  pause: {
    title: "Pause",
    submit: "Pause",
    done: "paused",
    preview: (dag) => (dag.is_paused ? null : "no new tasks start, running ones continue"),
    act: (dag) => patch(at("dags", dag.dag_id), { is_paused: true }),
  },
  unpause: {
    title: "Unpause",
    submit: "Unpause",
    done: "unpaused",
    preview: (dag) => (dag.is_paused ? "runs are created and start" : null),
    act: (dag) => patch(at("dags", dag.dag_id), { is_paused: false }),
  },
  trigger: {
    title: "Trigger …",
    submit: "Trigger",
    done: "triggered",
    preview: (dag) => (dag.is_paused ? null : "a run with default params"),
    act: (dag) => post(at("dags", dag.dag_id, "runs"), {}),
  },
  clear: {
    title: "Clear failed of the last run …",
    submit: "Clear",
    done: "cleared",
    danger: true,
    preview: async (dag) => {
      if (!dag.last_run_id) return null;
      const found = await clear(dag, true);
      if (found.accepted) return "no preview: no scheduler is responding";
      return found.count ? `${found.count} failed tasks in ${found.runs.length} runs run again` : null;
    },
    act: (dag) => clear(dag, false),
  },
};

/**
 * Clear the failed tasks of the newest run of a DAG.
 * @param {Api["DagResource"]} dag
 * @param {boolean} dryRun
 */
const clear = (dag, dryRun) =>
  post(at("dags", dag.dag_id, "clear"), { only_failed: true, dry_run: dryRun, run_ids: [dag.last_run_id] });

/** @param {{ dags: Api["DagResource"][], onDone: () => void }} props */
export function BulkBar({ dags, onDone }) {
  const [open, setOpen] = useState("");
  if (!dags.length) return null;
  return html`
    <div class="row bulk" role="group" aria-label="Actions on selected DAGs">
      <b>${dags.length} selected</b>
      ${Object.entries(ACTIONS).map(([name, { title }]) => html`
        <button key=${name} class="button small" onClick=${() => setOpen(name)}>
          ${title}
        </button>
      `)}
      ${open && html`
        <${BulkDialog} action=${ACTIONS[open]} dags=${dags} onClose=${() => setOpen("")} onDone=${onDone} />
      `}
    </div>
  `;
}

/**
 * What an action would do with each DAG: the DAG, and words or an error; null until it is known.
 * @param {BulkAction} action
 * @param {Api["DagResource"][]} dags
 */
function usePreview(action, dags) {
  const [found, setFound] = useState(/** @type {{ words: string | null, error?: string }[] | null} */ (null));
  useEffect(() => {
    let current = true;
    const asked = dags.map(async (dag) => {
      try {
        return { words: await action.preview(dag) };
      } catch (error) {
        return { words: null, error: error.message };
      }
    });
    Promise.all(asked).then((all) => current && setFound(all));
    return () => {
      current = false;
    };
  }, []);
  return found;
}

/** @param {number} count */
const number = (count) => `${count} ${count === 1 ? "DAG" : "DAGs"}`;

/** @param {{ words: string | null, error?: string } | undefined} previewed */
const wordsOf = (previewed) => (previewed ? (previewed.error ?? previewed.words ?? "nothing to do") : "…");

/** @param {DialogProps & { action: BulkAction, dags: Api["DagResource"][] }} props */
function BulkDialog({ action, dags: given, onClose, onDone }) {
  const [dags] = useState(given); // those that were selected: the list changes meanwhile
  const preview = usePreview(action, dags);
  const [acted, setActed] = useState(/** @type {string[]} */ ([])); // with success; the others can be tried again
  const left = preview ? dags.filter((dag, i) => preview[i].words !== null && !acted.includes(dag.dag_id)) : [];
  const act = async () => {
    const wrong = [];
    const succeeded = [...acted];
    for (const dag of left)
      try {
        await action.act(dag);
        succeeded.push(dag.dag_id);
      } catch (error) {
        wrong.push(`${dag.dag_id}: ${error.message}`);
      }
    setActed(succeeded);
    if (wrong.length) throw new Error(wrong.join("; ")); // the dialog stays and shows it
    return null;
  };
  return html`
    <${Confirm}
      title=${`${action.submit} ${dags.length} selected`}
      submitLabel=${`${action.submit} ${number(left.length)}`}
      act=${act}
      done=${`${number(acted.length + left.length)} ${action.done}.`}
      danger=${action.danger}
      disabled=${!left.length}
      onClose=${onClose}
      onDone=${onDone}
    >
      <ul
        class="plain scroll preview"
        tabindex="0"
        aria-label="Preview"
        aria-busy=${preview ? "false" : "true"}
      >
        ${dags.map((dag, i) => html`
          <li key=${dag.dag_id}>
            <b>${dag.dag_id}</b>${" "}
            <span class="soft">${acted.includes(dag.dag_id) ? action.done : wordsOf(preview?.[i])}</span>
          </li>
        `)}
      </ul>
    <//>
  `;
}
