// Named views of a list as tabs: all, those that the page has, those that are shared, and those kept in this browser.
import { html, useState } from "../../lib/html.js";
import { at, may, mayEverywhere, post, put } from "../../lib/api.js";
import { useList } from "../../lib/resources.js";
import { go, here, href } from "../../lib/router.js";
import { ConfirmDeletion, onlyIf } from "../condition.js";
import { toast } from "../dialog.js";
import { SelectField } from "../form.js";
import { Menu } from "../menu.js";
import { removeView, saveView, viewsOf } from "./views.js";

/** @typedef {Api["ViewResource"]} Shared */

/** @param {Shared} view */
const sharedWith = ({ team }) => (team === null ? "everybody" : `team ${team}`);

/**
 * `views` are those that every user has.
 * @param {{ page: string, views?: import("./views.js").NamedView[] }} props
 */
export function ViewTabs({ page, views = [] }) {
  /** @type {List<Shared>} */
  const list = useList("views", { page });
  const [removed, setRemoved] = useState(/** @type {Shared | null} */ (null));
  const shared = list.items.value ?? [];
  const saved = viewsOf(page);
  const now = here.value.query.toString();
  const isNow = (/** @type {{ query: string }} */ one) => one.query === now;
  const own = saved.find(isNow);
  const ours = shared.find(isNow);
  const isNamed = Boolean((own && !may("editor")) || ours || views.some(isNow));
  const link = async () => {
    await navigator.clipboard.writeText(location.href);
    toast("The address of this view is copied.", "good");
  };
  const tab = (/** @type {{ name: string, query: string }} */ { name, query }, title = "", key = name) => html`
    <a
      key=${key}
      href=${href(here.value.path + (query && `?${query}`))}
      title=${title || undefined}
      aria-current=${query === now ? "page" : undefined}
    >
      ${name}
    </a>
  `;
  return html`
    <div class="row line views">
      <nav class="tabs" aria-label="Saved views">
        ${tab({ name: "All", query: "" })} ${views.map((one) => tab(one))}
        ${shared.map((one) =>
          tab(one, `Shared with ${sharedWith(one)}, by ${one.changed_by}`, `shared ${one.id}`),
        )}
        ${saved.map((one) => tab(one, "Kept in this browser", `own ${one.name}`))}
      </nav>
      ${now && html`
        <button class="button small quiet" title="For others: they see what they may see" onClick=${link}>
          Copy link
        </button>
      `}
      ${now && !isNamed && html`
        <${Menu} words="Save view …" label="Save view">
          ${(/** @type {() => void} */ close) => html`
            <${Save} page=${page} query=${now} shared=${shared} onDone=${() => (list.reload(), close())} />
          `}
        <//>
      `}
      ${own ? html`
        <button class="button small quiet" onClick=${() => (removeView(page, own.name), go(here.value.path))}>
          Remove view
        </button>
      ` : (
        ours &&
        may("editor") && html`
          <button class="button small quiet" onClick=${() => setRemoved(ours)}>
            Remove view …
          </button>
        `
      )}
      ${removed && html`
        <${ConfirmDeletion}
          title=${`Remove view ${removed.name}`}
          submitLabel="Remove"
          place=${at("views", removed.id)}
          read=${removed}
          done=${`View ${removed.name} removed.`}
          onClose=${() => setRemoved(null)}
          onDone=${() => (list.reload(), go(here.value.path))}
        >
          <p>It is shared with ${sharedWith(removed)}: they lose the tab.</p>
        <//>
      `}
    </div>
  `;
}

const [HERE, EVERYBODY] = ["", "\n"]; // no team has such a name

/** @param {{ page: string, query: string, shared: Shared[], onDone: () => void }} props */
function Save({ page, query, shared, onDone }) {
  const [name, setName] = useState("");
  const [place, setPlace] = useState(HERE);
  const [wrong, setWrong] = useState("");
  /** @type {List<Api["TeamResource"]>} */
  const teams = useList(may("editor") ? "teams" : null);
  /** @type {Choice[]} */
  const places = [
    [HERE, "in this browser"],
    ...(teams.items.value ?? []).map((team) => /** @type {Choice} */ ([team.name, `for team ${team.name}`])),
    ...(mayEverywhere("editor") ? [/** @type {Choice} */ ([EVERYBODY, "for everybody"])] : []),
  ];
  const team = place === EVERYBODY ? null : place;
  const known = place === HERE ? null : shared.find((one) => one.name === name.trim() && one.team === team);
  /** @param {Event} event */
  const save = async (event) => {
    event.preventDefault();
    const view = { name: name.trim(), query };
    try {
      if (place === HERE) saveView(page, view.name, query);
      else if (known) await put(at("views", known.id), view, onlyIf(known));
      else await post("views", { page, team, ...view });
      onDone();
    } catch (problem) {
      setWrong(problem.message);
    }
  };
  return html`
    <form class="stack tight" onSubmit=${save}>
      <div class="row">
        <input
          class="input"
          aria-label="Name of the view"
          placeholder=${place === HERE ? "Name, kept in this browser" : "Name"}
          maxlength="100"
          value=${name}
          onInput=${(/** @type {FieldEvent} */ e) => setName(e.target.value)}
        />
        <button class="button primary" disabled=${!name.trim()}>
          ${known ? "Replace" : "Save"}
        </button>
      </div>
      ${places.length > 1 && html`
        <${SelectField} id="view-place" label="Kept" value=${place} options=${places} onText=${setPlace} />
      `}
      ${wrong && html`
        <p class="wrong" role="alert">
          ${wrong}
        </p>
      `}
    </form>
  `;
}
