// Filters of lists across DAGs, in the address: values with counts, the time, the duration, and named views.
import { html, useState } from "../../lib/html.js";
import { go, here, query, setQuery } from "../../lib/router.js";
import { startOfDay } from "../../lib/time.js";
import { removeView, saveView, viewsOf } from "./views.js";
import { Filter } from "../form.js";

/** @typedef {{ counts: Api["FacetValue"][], complete: boolean } | null} FacetData */

/** @type {Record<string, number>} */
const PERIODS = { "1h": 3600, "24h": 86400, "7d": 604800 };
const MINUTE = 60_000;

/**
 * The first instant of the time filter and the one that ends it, to the minute so that a list is not read anew all
 * the time.
 * @returns {[since: string | undefined, until: string | undefined]}
 */
export function periodOf() {
  const { time, from, to } = query.value;
  if (PERIODS[time]) {
    const now = Math.floor(Date.now() / MINUTE) * MINUTE;
    return [new Date(now - PERIODS[time] * 1000).toISOString(), undefined];
  }
  if (time !== "range") return [undefined, undefined];
  return [startOfDay(from), startOfDay(to, 1)];
}

/**
 * The values of a facet as options, with their counts; one that is chosen is always among them.
 * @param {FacetData} facets
 * @param {string} name
 * @param {(value: string) => string} words
 * @returns {Choice[]}
 */
function optionsOf(facets, name, words) {
  const found = (facets?.counts ?? []).filter((one) => one.facet === name && one.value);
  const more = facets && !facets.complete ? "+" : "";
  /** @type {Choice[]} */
  const options = found.map(({ value, number }) => [
    String(value),
    `${words(String(value))} (${number}${more})`,
  ]);
  const chosen = query.value[name];
  return !chosen || found.some((one) => one.value === chosen) ? options : [[chosen, words(chosen)], ...options];
}

/**
 * Selects for facets: `fields` are `[facet, label, text of no choice]`.
 * @param {{ facets: FacetData, fields: [string, string, string][], words?: (value: string) => string }} props
 */
export const FacetFilters = ({ facets, fields, words = (value) => value }) => html`
  ${fields.map(([name, label, any]) => html`
    <${Filter}
      key=${name}
      label=${label}
      value=${query.value[name]}
      any=${any}
      options=${optionsOf(facets, name, words)}
      onText=${(/** @type {string} */ text) => setQuery({ [name]: text })}
    />
  `)}
`;

/** The time filter: the last hour, day or week, or a range of days, the last one included. */
export function TimeFilter() {
  const { time, from, to } = query.value;
  /** @param {string} name @param {string | undefined} value */
  const day = (name, value) => html`
    <label class="row soft">
      ${name}${" "}
      <input
        class="input"
        type="date"
        value=${value ?? ""}
        onChange=${(/** @type {FieldEvent} */ e) => setQuery({ [name]: e.target.value })}
      />
    </label>
  `;
  return html`
    <${Filter}
      label="Time"
      value=${time}
      any="any time"
      options=${[
        ["1h", "last hour"],
        ["24h", "last 24 hours"],
        ["7d", "last 7 days"],
        ["range", "range …"],
      ]}
      onText=${(/** @type {string} */ text) => setQuery({ time: text, from: null, to: null })}
    />
    ${time === "range" && html`
      ${day("from", from)} ${day("to", to)}
    `}
  `;
}

/** Filters by the shortest and the longest duration. */
export function DurationFilter() {
  /** @type {Choice[]} */
  const lengths = [
    ["10", "10 s"],
    ["60", "1 min"],
    ["600", "10 min"],
    ["3600", "1 h"],
    ["21600", "6 h"],
  ];
  return html`
    <${Filter}
      label="Longer than"
      value=${query.value.longer}
      any="any duration"
      options=${lengths.map(([value, words]) => [value, `longer than ${words}`])}
      onText=${(/** @type {string} */ text) => setQuery({ longer: text })}
    />
    <${Filter}
      label="Shorter than"
      value=${query.value.shorter}
      any="no upper limit"
      options=${lengths.map(([value, words]) => [value, `shorter than ${words}`])}
      onText=${(/** @type {string} */ text) => setQuery({ shorter: text })}
    />
  `;
}

/**
 * Named views of a page: choose, save, remove. They are kept in this browser.
 * @param {{ page: string }} props
 */
export function Views({ page }) {
  const [name, setName] = useState("");
  const views = viewsOf(page);
  const now = here.value.query.toString();
  const current = views.find((one) => one.query === now)?.name ?? "";
  const save = () => {
    saveView(page, name.trim(), now);
    setName("");
  };
  return html`
    <div class="row views">
      <${Filter}
        label="View"
        value=${current}
        any=${views.length ? "choose a view" : "no saved views"}
        options=${views.map((one) => [one.name, one.name])}
        onText=${(/** @type {string} */ text) =>
          go(here.value.path + (text ? `?${views.find((one) => one.name === text)?.query}` : ""))
        }
      />
      ${current ? html`
        <button class="button small" onClick=${() => removeView(page, current)}>
          Remove view
        </button>
      ` : (
        now && html`
          <input
            class="input"
            aria-label="Name of the view"
            placeholder="Name this view"
            title="Saved in this browser"
            value=${name}
            onInput=${(/** @type {FieldEvent} */ e) => setName(e.target.value)}
          />
          <button class="button small" disabled=${!name.trim()} onClick=${save}>
            Save view
          </button>
        `
      )}
    </div>
  `;
}
