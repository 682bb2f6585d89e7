// The app shell: navigation, routing, login, toasts, keyboard help.
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { logInByLink, loginNeeded, me, meError, post, tellTabs, whoAmI } from "./lib/api.js";
import "./lib/downloads.js";
import { badgeOf, useBadges } from "./lib/badges.js";
import { forgetDrafts, hasDrafts } from "./lib/drafts.js";
import { isStale, streamState } from "./lib/freshness.js";
import { useKey } from "./lib/keys.js";
import { startLive, stopLive } from "./lib/live.js";
import { go, here, href, match, query, setQuery } from "./lib/router.js";
import { density, setDensity, setTheme, theme } from "./lib/theme.js";
import { switchZone, zone, zoneName } from "./lib/time.js";
import { PAGES, ROUTES, SECTIONS } from "./navigation.js";
import { isInPlace, Login } from "./pages/login.js";
import { Banner } from "./parts/banner.js";
import { Empty, Failure, Loading, Page } from "./parts/basics.js";
import { Toasts, toast } from "./parts/dialog.js";
import { Help } from "./parts/help.js";
import { PageIcon } from "./parts/icons.js";
import { Instance } from "./parts/instance.js";
import { Finder, openFinder } from "./parts/palette/palette.js";

const STREAM = {
  live: "Live",
  connecting: "Connecting…",
  disconnected: "Disconnected",
  database: "Database unreachable",
};

const NotFound = () => html`
  <${Page} title="Page not found">
    <${Empty} title="There is no page at this address">
      <a href=${href("/")}>Go home</a>
    <//>
  <//>
`;

const Opened = () => html`
  <main class="main">
    <${Empty} title="You are logged in">
      What this address has is opened now; a file is among your downloads. <a href=${href("/")}>Go home</a>
    <//>
  </main>
`;

async function logOut() {
  try {
    const { provider } = await post("logout");
    forgetDrafts();
    tellTabs();
    if (provider) location.assign(provider);
    else location.reload();
  } catch (error) {
    toast(`You are still logged in: ${error.message}`, "danger");
  }
}

/** Load the current user; an address that `aiosched serve` or `--open` has printed logs in. */
async function begin() {
  const { token } = query.value;
  if (token) {
    setQuery({ token: null });
    if (!(await logInByLink(token))) setQuery({ refused: "used-link" });
  }
  await whoAmI();
  if (me.value && query.value.refused) setQuery({ refused: null });
}

/** @param {{ keys: string, label: string, act: () => void }} props */
function Key({ keys, label, act }) {
  useKey(keys, label, act);
  return null;
}

/** @param {{ words: string, value: string, options: [string, string][], onText: (text: string) => void }} props */
const Choice = ({ words, value, options, onText }) => html`
  <label class="row">
    ${words}${" "}
    <select class="input" value=${value} onChange=${(/** @type {FieldEvent} */ e) => onText(e.target.value)}>
      ${options.map(([name, label]) => html`
        <option value=${name}>${label}</option>
      `)}
    </select>
  </label>
`;

/** @type {[string, string][]} */
const THEMES = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];
/** @type {[string, string][]} */
const DENSITIES = [
  ["comfortable", "Comfortable"],
  ["compact", "Compact"],
];

/** Below the navigation: the stream, the user, the time zone, and how pages look. */
const Foot = () => html`
  <div class="foot">
    <span class="row apart">
      <span>${STREAM[streamState.value]}</span>
      <button class="button small" onClick=${switchZone} title="Switch between UTC and local time (t)">
        ${zone.value === "utc" ? "UTC" : zoneName()}
      </button>
    </span>
    <a href="docs/" target="_blank" rel="noopener">
      Documentation
    </a>
    ${me.value?.login !== "none" && html`
      <span class="row apart">
        <span>
          ${me.value?.name} · ${me.value?.role}
        </span>
        <button class="button small" onClick=${logOut}>
          Log out
        </button>
      </span>
    `}
    <${Choice} words="Theme" value=${theme.value} options=${THEMES} onText=${setTheme} />
    <${Choice} words="Rows" value=${density.value} options=${DENSITIES} onText=${setDensity} />
  </div>
`;

/** @param {{ to: string }} props */
function Badge({ to }) {
  const number = badgeOf(to);
  return number ? html`
    <span class="badge">
      <span class="hidden-text">: </span>
      ${number >= 100 ? "99+" : number}
    </span>
  ` : null;
}

function Side() {
  useBadges();
  const path = here.value.path;
  /** @param {string} to */
  const current = (to) =>
    (to === "/" ? path === "/" : path === to || path.startsWith(to + "/")) ? "page" : undefined;
  const [open, setOpen] = useState(false); // on narrow screens
  useEffect(() => {
    setOpen(false);
  }, [path]);
  return html`
    <nav class=${open ? "side open" : "side"} aria-label="Main">
      <a class="brand" href=${href("/")}>
        <img src="ui/icon.svg" alt="" />
        aiosched
        <${Instance} />
      </a>
      <button class="button menu" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>
        Menu
      </button>
      <button class="button find" onClick=${openFinder} aria-keyshortcuts="Control+K">
        Search <kbd>Ctrl K</kbd>
      </button>
      ${SECTIONS.map(([name, items]) => html`
        ${name && html`<div class="heading">${name}</div>`}
        ${items.map(([to, label]) => html`
          <a class="item" href=${href(to)} aria-current=${current(to)}>
            <${PageIcon} to=${to} />
            ${label}
            <${Badge} to=${to} />
          </a>
        `)}
      `)}
      <${Foot} />
    </nav>
  `;
}

const toMain = () => document.getElementById("main")?.focus({ preventScroll: true });

/** Move the focus to the top of the page after navigation. */
function usePageFocus() {
  const path = here.value.path;
  const previous = useRef(path);
  useEffect(() => {
    if (previous.current !== path) {
      previous.current = path;
      toMain();
    }
  }, [path]);
}

function App() {
  const [help, setHelp] = useState(false);
  usePageFocus();
  useKey("?", "show keyboard shortcuts", () => setHelp(true));
  useKey("t", "switch between UTC and local time", switchZone);
  useEffect(() => {
    begin();
  }, []);
  const user = me.value?.name;
  const before = useRef(user);
  useEffect(() => {
    if (!user) return;
    if (loginNeeded.value) return void stopLive();
    if (isInPlace) return location.reload();
    if (before.current && before.current !== user) toast(`You are now logged in as ${user}.`);
    if (hasDrafts()) toast("What you had entered, but for secrets, is there when you open the dialog again.");
    before.current = user;
    startLive();
  }, [user, loginNeeded.value]);
  if (loginNeeded.value) return html`<${Login} />`;
  if (!me.value)
    return html`
      <main class="main">
        ${meError.value ? html`<${Failure} error=${meError.value} retry=${whoAmI} />` : html`<${Loading} />`}
      </main>
    `;
  if (isInPlace) return html`<${Opened} />`;
  const found = match(ROUTES, here.value.path);
  const page = found ? html`<${found.page} key=${here.value.path} ...${found.params} />` : html`<${NotFound} />`;
  return html`
    <div class="shell" key=${user}>
      ${SECTIONS.flatMap(([, items]) => items).map(
        ([to, label, keys]) => keys && html`<${Key} keys=${keys} label=${label} act=${() => go(to)} />`,
      )}
      <button class="button skip" onClick=${toMain}>
        Skip to main content
      </button>
      <${Finder} pages=${PAGES} />
      <${Side} />
      <main class=${isStale.value ? "main stale" : "main"} id="main" tabindex="-1">
        <${Banner} />
        ${page}
      </main>
      <${Toasts} />
      ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
    </div>
  `;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
