// Small parts that every page uses: states, instants, facts, empty and error states, tabs, the frame of a page.
import { html, useEffect, classes } from "../lib/html.js";
import { here, href, query } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { instant, relative, zoneName, duration } from "../lib/time.js";

/** A state as colour, glyph and text; `bare` leaves the text to screen readers. */
export function State({ name, bare = false, count }) {
  const { glyph, label } = stateOf(name);
  const text = count === undefined ? label : `${count} ${label}`;
  return html`
    <span class="state" title=${text} style=${{ "--c": `var(--state-${name || "none"}, var(--state-none))` }}>
      <i aria-hidden="true">${glyph}</i>
      <span class=${bare ? "hidden-text" : ""}>${text}</span>
    </span>
  `;
}

/** An instant in the chosen zone, with how long ago in its tooltip; `ago` shows it the other way round. */
export function When({ at, ago = false, none = "–" }) {
  if (!at) return html`<span class="faint">${none}</span>`;
  const exact = `${instant(at)} ${zoneName()}`;
  return html`
    <time class="tabular nowrap" datetime=${at} title=${ago ? exact : `${exact} · ${relative(at)}`}>
      ${ago ? relative(at) : instant(at)}
    </time>
  `;
}

export const Duration = ({ seconds, none = "–" }) => html`
  <span class="tabular nowrap">${seconds === null || seconds === undefined ? none : duration(seconds)}</span>
`;

/** A link inside the UI. */
export const Link = ({ to, children, ...rest }) => html`
  <a href=${href(to)} ...${rest}>
    ${children}
  </a>
`;

/** Term and value pairs: `rows` are `[term, value]`; empty values are left out. */
export function Facts({ rows }) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`
    <dl class="facts">
      ${shown.map(([term, value]) => html`
        <dt>${term}</dt>
        <dd>${value}</dd>
      `)}
    </dl>
  `;
}

/** What to say where nothing is: the fact, the reason, and what to do. */
export const Empty = ({ title, children, command }) => html`
  <div class="empty">
    <b>${title}</b>
    ${children && html`<span>${children}</span>`}
    ${command && html`<code>${command}</code>`}
  </div>
`;

/** An error in place of what should be shown. */
export function Failure({ error, retry }) {
  const titles = {
    0: "No connection",
    401: "Login needed",
    403: "Not allowed",
    404: "Not found",
    503: "The database does not answer",
  };
  return html`
    <div class="empty" role="alert">
      <b>${titles[error.status] || "That did not work"}</b>
      <span>${error.message}</span>
      ${retry && html`
        <button class="button" onClick=${retry}>
          Try again
        </button>
      `}
    </div>
  `;
}

/** Grey bars while something is read. */
export const Loading = ({ lines = 4 }) => html`
  <div class="stack tight" role="status" aria-label="loading">
    ${Array.from({ length: lines }, (_, i) => html`
      <div class="skeleton" style=${{ width: `${90 - ((i * 17) % 40)}%` }} />
    `)}
  </div>
`;

/** Says that what stands below could not be read anew; nothing without an error. */
export const Stale = ({ error }) =>
  error && html`<${Notice} kind="warn">This may be old, reading it anew failed: ${error.message}<//>`;

/** Words that are not shown: screen readers say them when they change. */
export const Said = ({ words }) => html`
  <span class="hidden-text" role="status">
    ${words}
  </span>
`;

/** Data of `useResource` or its loading, error and empty states: `children` is a function of the data. */
export function Shown({ of, children, lines }) {
  if (of.data.value !== null)
    return html`
      <${Stale} error=${of.error.value} />
      ${children(of.data.value)}
    `;
  if (of.error.value) return html`<${Failure} error=${of.error.value} retry=${of.reload} />`;
  return html`<${Loading} lines=${lines} />`;
}

export const Card = ({ title, actions, children, plain = false, ...rest }) => html`
  <section class="card" ...${rest}>
    ${title && html`
      <div class="head">
        <h2>${title}</h2>
        <div class="row">${actions}</div>
      </div>
    `}
    ${plain ? children : html`<div class="body">${children}</div>`}
  </section>
`;

/** The frame of a page: crumbs `[[words, path]…]`, a title, actions on its right, and what stands below. */
export function Page({ title, crumbs = [], actions, lead, children }) {
  useEffect(() => {
    document.title = `${title} · aiosched`;
  }, [title]);
  return html`
    <div class="page">
      <header>
        ${crumbs.length > 0 && html`
          <nav class="crumbs" aria-label="Where">
            ${crumbs.map(([words, to], i) => html`
              ${i > 0 && html`<span aria-hidden="true">/</span>`}
              <${Link} to=${to}>${words}<//>
            `)}
          </nav>
        `}
        <div class="row apart">
          <h1>${title}</h1>
          <div class="row">${actions}</div>
        </div>
        ${lead && html`<div class="row soft">${lead}</div>`}
      </header>
      ${children}
    </div>
  `;
}

/**
 * Tabs that live in the query string: `tabs` are `[key, words]`, the first is the default.
 * @param {{ tabs: [string, string][], name?: string, keep?: string[] }} props  `keep`: values that links keep
 */
export function Tabs({ tabs, name = "tab", keep = [] }) {
  const current = query.value[name] || tabs[0][0];
  const kept = keep.filter((key) => query.value[key]).map((key) => [key, query.value[key]]);
  return html`
    <nav class="tabs" aria-label="Views">
      ${tabs.map(([key, words]) => html`
        <a
          href=${href(here.value.path + "?" + new URLSearchParams([[name, key], ...kept]))}
          aria-current=${key === current ? "page" : undefined}
        >
          ${words}
        </a>
      `)}
    </nav>
  `;
}

export const Tag = ({ kind, children }) => html`<span class=${classes("tag", kind)}>${children}</span>`;
export const Notice = ({ kind, children }) => html`
  <div class=${classes("notice", kind)} role=${kind === "danger" ? "alert" : "status"}>
    ${children}
  </div>
`;
