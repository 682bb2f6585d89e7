// The shell: navigation, the page for the address, login, toasts, keyboard help.
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { loginNeeded, me, notKnown, post, whoAmI } from "./lib/api.js";
import { shortcuts, useKey } from "./lib/keys.js";
import { connection, startLive } from "./lib/live.js";
import { go, here, href, match } from "./lib/router.js";
import { setTheme, theme } from "./lib/theme.js";
import { switchZone, zone, zoneName } from "./lib/time.js";
import { Assets } from "./pages/assets.js";
import { AssetPage } from "./pages/assets/asset.js";
import { Audit } from "./pages/audit.js";
import { Backfills } from "./pages/backfills.js";
import { DagPage } from "./pages/dag.js";
import { Dags } from "./pages/dags.js";
import { Home } from "./pages/home.js";
import { ImportErrors } from "./pages/import_errors.js";
import { Login } from "./pages/login.js";
import { Pools } from "./pages/pools.js";
import { RunPage } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { Schedulers } from "./pages/schedulers.js";
import { Secrets } from "./pages/secrets.js";
import { Settings } from "./pages/settings.js";
import { TaskPage } from "./pages/task.js";
import { Users } from "./pages/users.js";
import { Empty, Failure, Loading, Notice, Page } from "./parts/basics.js";
import { Dialog, Toasts } from "./parts/dialog.js";

const ROUTES = [
  ["/", Home],
  ["/dags", Dags],
  ["/dags/:dag", DagPage],
  ["/dags/:dag/runs/:run", RunPage],
  ["/dags/:dag/runs/:run/tasks/:task", TaskPage],
  ["/runs", Runs],
  ["/backfills", Backfills],
  ["/assets", Assets],
  ["/assets/:asset", AssetPage],
  ["/pools", Pools],
  ["/schedulers", Schedulers],
  ["/import-errors", ImportErrors],
  ["/audit", Audit],
  ["/secrets", Secrets],
  ["/settings", Settings],
  ["/users", Users],
];

/** @type {[string | null, string[][]][]} */
const SECTIONS = [
  [
    null,
    [
      ["/", "Home", "g h"],
      ["/dags", "DAGs", "g d"],
      ["/runs", "Runs", "g r"],
      ["/backfills", "Backfills", "g b"],
      ["/assets", "Assets", "g a"],
    ],
  ],
  [
    "Operations",
    [
      ["/pools", "Pools", "g p"],
      ["/schedulers", "Schedulers", "g s"],
      ["/import-errors", "Import errors", "g e"],
      ["/audit", "Audit", "g l"],
    ],
  ],
  [
    "Administration",
    [
      ["/secrets", "Secrets"],
      ["/settings", "Settings"],
      ["/users", "Users and tokens"],
    ],
  ],
];

const NotThere = () => html`
  <${Page} title="No such page">
    <${Empty} title="There is nothing at this address">
      <a href=${href("/")}>Go home</a>
    <//>
  <//>
`;

async function logOut() {
  await post("logout");
  location.reload();
}

function Key({ keys, words, act }) {
  useKey(keys, words, act);
  return null;
}

function Side() {
  const path = here.value.path;
  const current = (to) =>
    (to === "/" ? path === "/" : path === to || path.startsWith(to + "/")) ? "page" : undefined;
  const [open, setOpen] = useState(false); // on narrow screens
  useEffect(() => {
    setOpen(false);
  }, [path]);
  const lamp = { live: "live", connecting: "connecting …", off: "no news" }[connection.value];
  return html`
    <nav class=${open ? "side open" : "side"} aria-label="Main">
      <a class="brand" href=${href("/")}>
        <img src="ui/icon.svg" alt="" />
        aiosched
      </a>
      <button class="button menu" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>
        Menu
      </button>
      ${SECTIONS.map(([name, items]) => html`
        ${name && html`<div class="heading">${name}</div>`}
        ${items.map(([to, words]) => html`
          <a class="item" href=${href(to)} aria-current=${current(to)}>
            ${words}
          </a>
        `)}
      `)}
      <div class="foot">
        <span>${lamp}</span>
        ${me.value.login !== "none" && html`
          <span class="row apart">
            <span>
              ${me.value.name} · ${me.value.role}
            </span>
            <button class="button small" onClick=${logOut}>
              Log out
            </button>
          </span>
        `}
        <button class="button small" onClick=${switchZone} title="Times in UTC or local (t)">
          ${zone.value === "utc" ? "UTC" : zoneName()}
        </button>
        <label class="row">
          Theme${" "}
          <select class="input" value=${theme.value} onChange=${(e) => setTheme(e.target.value)}>
            <option value="system">System</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </div>
    </nav>
  `;
}

const toMain = () => document.getElementById("main")?.focus({ preventScroll: true });

/** The focus goes along to another page: to its beginning, not to nowhere. */
function useFocusOfPage() {
  const path = here.value.path;
  const before = useRef(path);
  useEffect(() => {
    if (before.current !== path) {
      before.current = path;
      toMain();
    }
  }, [path]);
}

function App() {
  const [help, setHelp] = useState(false);
  useFocusOfPage();
  useKey("?", "this list", () => setHelp(true));
  useKey("t", "times in UTC or local", switchZone);
  useEffect(() => {
    whoAmI();
  }, []);
  useEffect(() => {
    if (me.value) startLive();
  }, [me.value?.name]);
  if (loginNeeded.value) return html`<${Login} />`;
  if (!me.value)
    return html`
      <main class="main">
        ${notKnown.value ? html`<${Failure} error=${notKnown.value} retry=${whoAmI} />` : html`<${Loading} />`}
      </main>
    `;
  const found = match(ROUTES, here.value.path);
  const page = found ? html`<${found.page} key=${here.value.path} ...${found.params} />` : html`<${NotThere} />`;
  return html`
    <div class="shell">
      ${SECTIONS.flatMap(([, items]) => items).map(
        ([to, words, keys]) => keys && html`<${Key} keys=${keys} words=${words} act=${() => go(to)} />`,
      )}
      <button class="button skip" onClick=${toMain}>
        Skip to the page
      </button>
      <${Side} />
      <main class="main" id="main" tabindex="-1">
        <div role="status">
          ${connection.value === "off" && html`
            <${Notice} kind="warn">
              No news come from the server: what you see may be old. Connecting again …
            <//>
          `}
        </div>
        ${page}
      </main>
      <${Toasts} />
      ${help && html`
        <${Dialog} title="Keyboard" onClose=${() => setHelp(false)}>
          <table class="table">
            <tbody>
              ${shortcuts.value.map(([keys, words]) => html`
                <tr>
                  <td>
                    <kbd>${keys}</kbd>
                  </td>
                  <td>${words}</td>
                </tr>
              `)}
            </tbody>
          </table>
        <//>
      `}
    </div>
  `;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
