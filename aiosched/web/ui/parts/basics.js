// Small components used by all pages: states, timestamps, facts, empty and error states, tabs, the page frame.
import { titled } from "../lib/instance.js";
import { isStale } from "../lib/freshness.js";
import { html, useEffect, useRef, classes } from "../lib/html.js";
import { here, href, query } from "../lib/router.js";
import { stateOf } from "../lib/states.js";
import { instant, relative, zoneName, duration } from "../lib/time.js";
import { StateIcon } from "./icons.js";

/**
 * A state as colour, icon and text; `bare` leaves the text to screen readers.
 * @param {{ name: string | null | undefined, bare?: boolean, count?: number }} props
 */
export function State({ name, bare = false, count }) {
  const { label } = stateOf(name);
  const text = count === undefined ? label : `${count} ${label}`;
  return html`
    <span class="state" title=${text} style=${{ "--c": `var(--state-${name || "none"}, var(--state-none))` }}>
      <i>
        <${StateIcon} name=${name} />
      </i>
      <span class=${bare ? "hidden-text" : ""}>${text}</span>
    </span>
  `;
}

/**
 * A timestamp in the selected zone, with the relative time as tooltip; with `ago` the other way round; `ms`:
 * with milliseconds.
 * @param {{ at: string | null | undefined, ago?: boolean, ms?: boolean, none?: string }} props
 */
export function When({ at, ago = false, ms = false, none = "–" }) {
  if (!at) return html`<span class="faint">${none}</span>`;
  const exact = `${instant(at)} ${zoneName()}`;
  return html`
    <time class="tabular nowrap" datetime=${at} title=${ago ? exact : `${exact} · ${relative(at)}`}>
      ${ago ? relative(at) : instant(at, { ms })}
    </time>
  `;
}

/** @param {{ seconds: number | null | undefined, none?: string }} props */
export const Duration = ({ seconds, none = "–" }) => html`
  <span class="tabular nowrap">${seconds === null || seconds === undefined ? none : duration(seconds)}</span>
`;

/**
 * A link inside the UI.
 * @param {{ to: string, children?: Content, [attribute: string]: unknown }} props
 */
export const Link = ({ to, children, ...rest }) => html`
  <a href=${href(to)} ...${rest}>
    ${children}
  </a>
`;

/**
 * A list of facts: `rows` are `[term, value]`; empty values are omitted.
 * @param {{ rows: [string, Content][] }} props
 */
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

/**
 * An empty state: what is missing, why, and what to do.
 * @param {{ title: string, children?: Content, command?: string | null }} props
 */
export const Empty = ({ title, children, command }) => html`
  <div class="empty">
    <b>${title}</b>
    ${children && html`<span>${children}</span>`}
    ${command && html`<code>${command}</code>`}
  </div>
`;

/**
 * An error, shown instead of the content.
 * @param {{ error: Problem, retry?: () => void }} props
 */
export function Failure({ error, retry }) {
  /** @type {Record<number, string>} */
  const titles = {
    0: "No connection",
    401: "Login required",
    403: "Not allowed",
    404: "Not found",
    503: "Database unavailable",
  };
  return html`
    <div class="empty" role="alert">
      <b>${titles[error.status] || "Something went wrong"}</b>
      <span>${error.message}</span>
      ${retry && html`
        <button class="button" onClick=${retry}>
          Try again
        </button>
      `}
    </div>
  `;
}

/**
 * A skeleton, shown while loading.
 * @param {{ lines?: number }} props
 */
export const Loading = ({ lines = 4 }) => html`
  <div class="stack tight" role="status" aria-label="loading">
    ${Array.from({ length: lines }, (_, i) => html`
      <div class="skeleton" style=${{ width: `${90 - ((i * 17) % 40)}%` }} />
    `)}
  </div>
`;

/**
 * Warns that the content below could not be reloaded; nothing without an error, or while a banner says it of the page.
 * @param {{ error: Problem | null | undefined }} props
 */
export const Stale = ({ error }) =>
  error &&
  !isStale.value && html`
    <${Notice} kind="warn">This may be out of date, reloading failed: ${error.message}<//>
  `;

/**
 * Hidden text that screen readers announce when it changes.
 * @param {{ text: string }} props
 */
export const Announce = ({ text }) => html`
  <span class="hidden-text" role="status">
    ${text}
  </span>
`;

/**
 * The data of a `useResource`, or its loading or error state; `children` is a function of the data.
 * @template T
 * @param {{ of: Resource<T>, children: (data: T) => Content, lines?: number }} props
 */
export function Shown({ of, children, lines }) {
  if (of.data.value !== null)
    return html`
      <${Stale} error=${of.error.value} />
      ${children(of.data.value)}
    `;
  if (of.error.value) return html`<${Failure} error=${of.error.value} retry=${of.reload} />`;
  return html`<${Loading} lines=${lines} />`;
}

/**
 * @param {{ title?: Content, actions?: Content, children?: Content, plain?: boolean,
 *   [attribute: string]: unknown }} props
 */
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

/**
 * The page frame: breadcrumbs `[[label, path]…]`, title with actions, and the content.
 * @param {{ title: string, crumbs?: [string, string][], actions?: Content, lead?: Content, children?: Content }} props
 */
export function Page({ title, crumbs = [], actions, lead, children }) {
  useEffect(() => {
    document.title = titled(title);
  }, [title]);
  return html`
    <div class="page">
      <header>
        ${crumbs.length > 0 && html`
          <nav class="crumbs" aria-label="Breadcrumb">
            ${crumbs.map(([label, to], i) => html`
              ${i > 0 && html`<span aria-hidden="true">/</span>`}
              <${Link} to=${to}>${label}<//>
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
 * Tabs stored in the query string: `tabs` are `[key, label]`, the first is the default.
 * @param {{ tabs: [string, string][], name?: string, keep?: string[] }} props  `keep`: parameters kept in links
 */
export function Tabs({ tabs, name = "tab", keep = [] }) {
  const current = query.value[name] || tabs[0][0];
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  useEffect(() => {
    const chosen = /** @type {HTMLElement | null} */ (box.current.querySelector("[aria-current]"));
    if (chosen) box.current.scrollLeft = chosen.offsetLeft - (box.current.clientWidth - chosen.clientWidth) / 2;
  }, [current]); // on a narrow screen the tabs scroll
  const kept = keep.filter((key) => query.value[key]).map((key) => [key, query.value[key]]);
  return html`
    <nav class="tabs" aria-label="Views" ref=${box}>
      ${tabs.map(([key, label]) => html`
        <a
          href=${href(here.value.path + "?" + new URLSearchParams([[name, key], ...kept]))}
          aria-current=${key === current ? "page" : undefined}
        >
          ${label}
        </a>
      `)}
    </nav>
  `;
}

/** @param {{ kind?: string, children?: Content }} props */
export const Tag = ({ kind, children }) => html`<span class=${classes("tag", kind)}>${children}</span>`;
/** @param {{ kind?: string, children?: Content }} props */
export const Notice = ({ kind, children }) => html`
  <div class=${classes("notice", kind)} role=${kind === "danger" ? "alert" : "status"}>
    ${children}
  </div>
`;
