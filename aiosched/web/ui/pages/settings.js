// Settings of the web server process, by section; secrets are hidden.
import { classes, html } from "../lib/html.js";
import { mayEverywhere } from "../lib/api.js";
import { numeral } from "../lib/names.js";
import { useResource } from "../lib/resources.js";
import { query } from "../lib/router.js";
import { Card, Empty, Page, Shown, Tag } from "../parts/basics.js";
import { FilterField } from "../parts/facts.js";

/**
 * A value with its unit, if it is a number of something: `300 s`, `1,048,576 bytes`.
 * @param {unknown} value
 * @param {Pick<Api["Setting"], "key" | "description">} setting
 */
export function valueWords(value, { key, description }) {
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  const [clause] = (description ?? "").split(";");
  const unit =
    /\b(seconds|hours|days|bytes)\b/.exec(clause)?.[1] ?? /_(seconds|hours|days|bytes)$/.exec(key)?.[1];
  return unit ? `${numeral(value)}\u00a0${unit === "seconds" ? "s" : unit}` : String(value);
}

/**
 * @param {unknown} value
 * @param {Api["Setting"]} setting
 */
const shown = (value, setting) =>
  value === null || value === undefined || value === "" ? html`
    <span class="faint">not set</span>
  ` : html`
    <code>${valueWords(value, setting)}</code>
  `;

/**
 * @param {unknown} a
 * @param {unknown} b
 */
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function Settings() {
  /** @type {Resource<Api["SettingsList"]>} */
  const found = useResource(mayEverywhere("admin") ? "settings" : null);
  const wanted = (query.value.search || "").toLowerCase();
  if (!mayEverywhere("admin"))
    return html`
      <${Page} title="Settings">
        <${Card}>
          <${Empty} title="Administrators only">
            Settings reveal details of the deployment and require the admin role.
          <//>
        <//>
      <//>
    `;
  return html`
    <${Page}
      title="Settings"
      lead="As used by the web server process; schedulers on other machines may use different settings."
      actions=${html`<${FilterField} name="search" words="Search settings" />`}
    >
      <${Shown} of=${found}>${({ items }) => html`<${Sections} items=${items} wanted=${wanted} />`}<//>
    <//>
  `;
}

/**
 * The settings that contain `wanted`, by the first part of their names.
 * @param {{ items: Api["Setting"][], wanted: string }} props
 */
function Sections({ items, wanted }) {
  /** @type {Record<string, Api["Setting"][]>} */
  const sections = {};
  for (const one of items) {
    if (!`${one.key} ${one.description}`.toLowerCase().includes(wanted)) continue;
    (sections[one.key.split(".")[0]] ??= []).push(one);
  }
  if (!Object.keys(sections).length)
    return html`
      <${Card}>
        <${Empty} title="No matching settings" />
      <//>
    `;
  return html`
    <div class="stack">
      ${Object.entries(sections).map(([name, list]) => html`
        <${Card} key=${name} title=${name} plain>
          <dl class="settings">
            ${list.map((one) => html`
              <${Setting} one=${one} />
            `)}
          </dl>
        <//>
      `)}
    </div>
  `;
}

/** @param {{ one: Api["Setting"] }} props */
function Setting({ one }) {
  const changed = !same(one.value, one.default);
  return html`
    <div class=${classes("setting", changed && "changed")}>
      <dt>
        <code>${one.key}</code>
        ${changed && html`
          ${" "}
          <${Tag} kind="warn">set<//>
        `}
        <p class="faint">${one.description}</p>
      </dt>
      <dd>
        ${shown(one.value, one)}
        ${changed && html`<p class="faint">default ${shown(one.default, one)}</p>`}
      </dd>
    </div>
  `;
}
