// The search over everything, opened by Ctrl-K, "/" or a button: a field with a list of results below it.
import { html, signal, useEffect, useRef, useState } from "../../lib/html.js";
import { at, get, patch } from "../../lib/api.js";
import { useKey } from "../../lib/keys.js";
import { go, here } from "../../lib/router.js";
import { ClearDialog } from "../actions/clear.js";
import { State } from "../basics.js";
import { Dialog, reportDone, toast } from "../dialog.js";
import { entriesFor, keyOf } from "./entries.js";
import { recentPaths, remember } from "./recent.js";

/** @typedef {import("./entries.js").Entry} Entry */

const PAUSE = 120; // ms without a key, then the server is asked

/**
 * What the server has found; the hits of the words before stay until there are new ones.
 * @param {string} typed
 */
function useHits(typed) {
  const [hits, setHits] = useState(/** @type {Api["SearchHit"][]} */ ([]));
  const [error, setError] = useState("");
  const words = typed.trim();
  useEffect(() => {
    if (!words) return void setHits([]);
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setHits((await get("search", { q: words }, { signal: abort.signal })).items);
        setError("");
      } catch (problem) {
        if (problem.name !== "AbortError") setError(problem.message);
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [words]);
  return { hits, error };
}

const isOpen = signal(false);
export const openFinder = () => {
  isOpen.value = true;
};

/**
 * Opens the search by its keys, and remembers which pages are visited. `pages` are the entries of the menu.
 * @param {{ pages: Entry[] }} props
 */
export function Finder({ pages }) {
  const { path } = here.value;
  useEffect(() => remember(path), [path]);
  useKey("Ctrl K", "search everything", openFinder);
  useKey("/", "search everything", openFinder);
  const close = () => {
    isOpen.value = false;
  };
  return isOpen.value && html`<${Palette} pages=${pages} onClose=${close} />`;
}

/** @param {Entry} entry */
async function setPaused({ dagId = "", dialog }) {
  const paused = dialog === "pause";
  try {
    reportDone(
      await patch(at("dags", dagId), { is_paused: paused }),
      `${dagId} is ${paused ? "paused" : "unpaused"}.`,
    );
  } catch (error) {
    toast(error.message, "danger");
  }
}

/**
 * The search dialog, then the dialog of the action that was chosen.
 * @param {{ pages: Entry[], onClose: () => void }} props
 */
function Palette({ pages, onClose }) {
  const [clearing, setClearing] = useState(/** @type {Entry | null} */ (null));
  /** @param {Entry} entry */
  const choose = (entry) => {
    if (entry.dialog === "clear") return setClearing(entry);
    onClose();
    if (entry.dialog) setPaused(entry);
    else if (entry.to) go(entry.to);
    else entry.act?.();
  };
  if (clearing)
    return html`
      <${ClearDialog}
        dagId=${clearing.dagId}
        selection=${clearing.runId ? { run_ids: [clearing.runId] } : {}}
        options=${{ only_failed: true }}
        onClose=${onClose}
      />
    `;
  return html`
    <${Dialog} title="Search" onClose=${onClose}>
      <${Search} pages=${pages} choose=${choose} />
    <//>
  `;
}

/** @param {{ pages: Entry[], choose: (entry: Entry) => void }} props */
function Search({ pages, choose }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const { hits, error } = useHits(typed);
  const entries = entriesFor({ typed, hits, recent: recentPaths(), place: here.value.path, pages });
  const current = Math.min(chosen, entries.length - 1);
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    /** @type {Record<string, number>} */
    const places = { ArrowDown: current + 1, ArrowUp: current - 1 };
    if (event.key in places) setChosen((places[event.key] + entries.length) % Math.max(entries.length, 1));
    else if (event.key === "Enter" && entries[current]) choose(entries[current]);
    else return;
    event.preventDefault();
  };
  return html`
    <input
      class="input"
      type="text"
      role="combobox"
      autofocus
      aria-label="Search"
      aria-expanded=${entries.length ? "true" : "false"}
      aria-controls="palette-results"
      aria-autocomplete="list"
      aria-activedescendant=${entries.length ? `palette-${current}` : undefined}
      placeholder="DAGs, tasks, runs, assets, pools, pages and actions"
      maxlength="100"
      value=${typed}
      onInput=${(/** @type {FieldEvent} */ event) => {
        setTyped(event.target.value);
        setChosen(0);
      }}
      onKeyDown=${press}
    />
    <${Results} entries=${entries} current=${current} choose=${choose} />
    <span class=${entries.length && !error ? "hidden-text" : "soft"} role="status">
      ${error || (entries.length ? `${entries.length} results` : "Nothing found")}
    </span>
  `;
}

/** @param {{ entries: Entry[], current: number, choose: (entry: Entry) => void }} props */
function Results({ entries, current, choose }) {
  /** @type {Ref<HTMLElement | null>} */
  const list = useRef(null);
  useEffect(() => {
    list.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return html`
    <ul class="palette" id="palette-results" role="listbox" aria-label="Results" ref=${list}>
      ${entries.map((entry, i) => html`
        <li
          key=${keyOf(entry)}
          id=${`palette-${i}`}
          role="option"
          aria-selected=${i === current ? "true" : "false"}
          onClick=${() => choose(entry)}
        >
          <span class="kind">${entry.kind === "dag" ? "DAG" : entry.kind}</span>
          <b>${entry.name}</b>
          ${entry.detail && html`<span class="soft">${entry.detail}</span>`}
          ${entry.state && html`<${State} name=${entry.state} />`}
        </li>
      `)}
    </ul>
  `;
}
