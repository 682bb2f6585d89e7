// The shell: navigation, the page for the address, login, toasts, keyboard help.
import { html, render, useState, useEffect } from "./lib/html.js";
import { here, href, match, go } from "./lib/router.js";
import { connection, startLive } from "./lib/live.js";
import { switchZone, zone, zoneName } from "./lib/time.js";
import { theme, setTheme } from "./lib/theme.js";
import { shortcuts, useKey } from "./lib/keys.js";
import { Dialog, Toasts } from "./parts/dialog.js";
import { Empty, Page } from "./parts/basics.js";
import { loginNeeded, me, post, whoAmI } from "./lib/api.js";
import { Home } from "./pages/home.js";
import { DagPage } from "./pages/dag.js";
import { Dags } from "./pages/dags.js";
import { Login } from "./pages/login.js";

const ROUTES = [
  ["/", Home],
  ["/dags", Dags],
  ["/dags/:dag", DagPage],
];

const SECTIONS = [
  [null, [["/", "Home", "g h"], ["/dags", "DAGs", "g d"]]],
];

const NotThere = () => html`<${Page} title="No such page"><${Empty} title="There is nothing at this address"><a href=${href("/")}>Go home</a><//><//>`;

async function logOut() {
  await post("logout");
  location.reload();
}

function Key({ keys, words, act }) { useKey(keys, words, act); return null; }

function Side() {
  const path = here.value.path;
  const current = (to) => (to === "/" ? path === "/" : path === to || path.startsWith(to + "/")) ? "page" : undefined;
  const lamp = { live: "live", connecting: "connecting …", off: "no connection" }[connection.value];
  return html`<nav class="side" aria-label="Main">
    <a class="brand" href=${href("/")}><img src="ui/icon.svg" alt="" />aiosched</a>
    ${SECTIONS.map(([name, items]) => html`${name && html`<div class="heading">${name}</div>`}${items.map(([to, words]) => html`<a class="item" href=${href(to)} aria-current=${current(to)}>${words}</a>`)}`)}
    <div class="foot">
      <span role="status">${lamp}</span>
      ${me.value?.login === "password" && html`<span class="row apart"><span>${me.value.name} · ${me.value.role}</span><button class="button small" onClick=${logOut}>Log out</button></span>`}
      <button class="button small" onClick=${switchZone} title="Times in UTC or local (t)">${zone.value === "utc" ? "UTC" : zoneName()}</button>
      <label class="row">Theme <select class="input" value=${theme.value} onChange=${(e) => setTheme(e.target.value)}><option value="system">System</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
    </div>
  </nav>`;
}

function App() {
  const [help, setHelp] = useState(false);
  useKey("?", "this list", () => setHelp(true));
  useKey("t", "times in UTC or local", switchZone);
  useEffect(() => { whoAmI(); }, []);
  useEffect(() => { if (me.value) startLive(); }, [me.value?.name]);
  if (loginNeeded.value) return html`<${Login} />`;
  if (!me.value) return null;
  const found = match(ROUTES, here.value.path);
  const page = found ? html`<${found.page} key=${here.value.path} ...${found.params} />` : html`<${NotThere} />`;
  return html`<div class="shell">
    ${SECTIONS.flatMap(([, items]) => items).map(([to, words, keys]) => keys && html`<${Key} keys=${keys} words=${words} act=${() => go(to)} />`)}
    <${Side} />
    <div class="main">${page}</div>
    <${Toasts} />
    ${help && html`<${Dialog} title="Keyboard" onClose=${() => setHelp(false)}><table class="table"><tbody>${shortcuts.value.map(([keys, words]) => html`<tr><td><kbd>${keys}</kbd></td><td>${words}</td></tr>`)}</tbody></table><//>`}
  </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
