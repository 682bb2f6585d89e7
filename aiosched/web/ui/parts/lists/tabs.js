// Named views of a list as tabs: all, those that the page has, and those that were saved in this browser.
import { html, useState } from "../../lib/html.js";
import { go, here, href } from "../../lib/router.js";
import { Menu } from "../menu.js";
import { toast } from "../dialog.js";
import { removeView, saveView, viewsOf } from "./views.js";

/**
 * `views` are those that every user has.
 * @param {{ page: string, views?: import("./views.js").NamedView[] }} props
 */
export function ViewTabs({ page, views = [] }) {
  const saved = viewsOf(page);
  const now = here.value.query.toString();
  const all = [{ name: "All", query: "" }, ...views, ...saved];
  const current = all.find((one) => one.query === now);
  const link = async () => {
    await navigator.clipboard.writeText(location.href);
    toast("The address of this view is copied.", "good");
  };
  return html`
    <div class="row line views">
      <nav class="tabs" aria-label="Saved views">
        ${all.map((one) => html`
          <a
            key=${one.name}
            href=${href(here.value.path + (one.query && `?${one.query}`))}
            aria-current=${one === current ? "page" : undefined}
          >
            ${one.name}
          </a>
        `)}
      </nav>
      ${now && html`
        <button class="button small quiet" title="For others: they see what they may see" onClick=${link}>
          Copy link
        </button>
      `}
      ${now && !current && html`
        <${Menu} words="Save view …" label="Save view">
          ${(/** @type {() => void} */ close) => html`
            <${Save} onName=${(/** @type {string} */ name) => (saveView(page, name, now), close())} />
          `}
        <//>
      `}
      ${current && saved.includes(current) && html`
        <button
          class="button small quiet"
          onClick=${() => (removeView(page, current.name), go(here.value.path))}
        >
          Remove view
        </button>
      `}
    </div>
  `;
}

/** @param {{ onName: (name: string) => void }} props */
function Save({ onName }) {
  const [name, setName] = useState("");
  return html`
    <form
      class="row"
      onSubmit=${(/** @type {Event} */ e) => {
        e.preventDefault();
        if (name.trim()) onName(name.trim());
      }}
    >
      <input
        class="input"
        aria-label="Name of the view"
        placeholder="Name, kept in this browser"
        value=${name}
        onInput=${(/** @type {FieldEvent} */ e) => setName(e.target.value)}
      />
      <button class="button primary" disabled=${!name.trim()}>
        Save
      </button>
    </form>
  `;
}
