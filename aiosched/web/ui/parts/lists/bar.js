// The bar of filters of a list: a search, a chip for each, and "+ Filter", where typing finds filters and values.
import { html, useRef, useState } from "../../lib/html.js";
import { useKey } from "../../lib/keys.js";
import { useResource } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { SearchField } from "../form.js";
import { Menu } from "../menu.js";
import { chipsOf, chosen, clearFilters, daysOf, paramsOf, removeFilter, toggle, wordsOf } from "./fields.js";

/** @typedef {import("./fields.js").Field} Field */

const MOST_SHOWN = 12;
const OF_DAGS = ["dag_id", "owner", "team", "tag"]; // what lists of other things do not count is known of DAGs

/**
 * A value that can be chosen, and how many entries of the list have it.
 * @typedef {{ field: Field, value: string, words: string, count?: string }} Found
 */

/**
 * `facets` is the API path of the counts of the list's values, with `fixed` parameters; without it the fields have all
 * their values.
 * @param {{ fields: Field[], facets?: string, fixed?: object, children?: Content,
 *   search?: { name: string, words: string, field?: Ref<HTMLInputElement> } }} props
 */
export function FilterBar({ fields, facets, fixed, search, children }) {
  const chips = chipsOf(fields);
  /** @type {Ref<HTMLElement>} */
  const opener = useRef(null);
  /** @param {Field} [of] */
  const chooser = (of) => (/** @type {() => void} */ close) => html`
    <${Chooser} of=${of} fields=${fields} facets=${facets} fixed=${fixed} close=${close} />
  `;
  useKey("f", "add a filter", () => opener.current?.click());
  return html`
    <div class="row filters" role="group" aria-label="Filters">
      ${search && html`
        <${SearchField}
          field=${search.field}
          label=${search.words}
          words=${search.words}
          value=${query.value[search.name]}
          onText=${(/** @type {string} */ text) => setQuery({ [search.name]: text })}
        />
      `}
      ${chips.map(({ field, sign, is, values }) => html`
        <span key=${sign + field.name} class="chip">
          <${Menu}
            class="button quiet"
            words=${
              html`
                ${field.words} ${is} <b>${values}</b>
              `
            }
            label=${`${field.words} ${is} ${values}: change`}
          >
            ${chooser(field)}
          <//>
          <button
            class="button quiet"
            aria-label=${`Remove filter ${field.words} ${is} ${values}`}
            onClick=${() => removeFilter(field, sign)}
          >
            ×
          </button>
        </span>
      `)}
      <${Menu} class="button" words="+ Filter" label="Add a filter" opener=${opener} aria-keyshortcuts="f">
        ${chooser()}
      <//>
      ${chips.length > 1 && html`
        <button class="button quiet" onClick=${() => clearFilters(fields)}>
          Remove all
        </button>
      `}
      ${children}
    </div>
  `;
}

/**
 * Chooses values of a field, or first the field.
 * @param {{ of?: Field, fields: Field[], facets?: string, fixed?: object, close: () => void }} props
 */
function Chooser({ of, fields, facets, fixed, close }) {
  const [field, setField] = useState(of);
  const [text, setText] = useState("");
  const found = useFound(field ? [field] : fields, fields, facets, fixed, text.trim());
  const wanted = text.trim().toLowerCase();
  const named = field ? [] : fields.filter((one) => one.words.toLowerCase().includes(wanted));
  const values = (field || wanted ? found : [])
    .filter((one) => !wanted || one.words.toLowerCase().includes(wanted))
    .slice(0, MOST_SHOWN);
  const typed = (field ? [field] : fields).filter(
    (one) =>
      one.free &&
      wanted &&
      (one.like ?? /./).test(text) &&
      !values.some((each) => each.field === one && each.value === text.trim()),
  );
  /** @type {Ref<HTMLInputElement>} */
  const input = useRef(null);
  const again = () => {
    setText("");
    input.current.focus();
  };
  /** @param {KeyboardEvent & { currentTarget: HTMLElement, target: HTMLElement }} event */
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const stops = [...event.currentTarget.querySelectorAll("input[type=search], .pick")];
    if (!step || !stops.length) return;
    event.preventDefault();
    /** @type {HTMLElement} */ (stops.at((stops.indexOf(event.target) + step) % stops.length))?.focus();
  };
  const words = field ? `${field.words} …` : "Filter or value …";
  return html`
    <div class="chooser" onKeyDown=${move}>
      <form
        onSubmit=${(/** @type {Event & { target: HTMLElement }} */ e) => {
          e.preventDefault();
          /** @type {HTMLElement | null} */ (e.target.parentElement?.querySelector(".pick"))?.click();
        }}
      >
        <input
          ref=${input}
          class="input"
          type="search"
          placeholder=${field?.hint ?? words}
          aria-label=${words}
          value=${text}
          onInput=${(/** @type {FieldEvent} */ e) => setText(e.target.value)}
        />
      </form>
      ${values.map((one) => html`
        <${Value} key=${`${one.field.name} ${one.value}`} found=${one} named=${!field} close=${close} />
      `)}
      ${typed.map((one) => html`
        <button
          key=${one.name}
          class="button quiet pick"
          onClick=${() => {
            toggle(one, "", text.trim());
            if (one.one) close();
            else again();
          }}
        >
          ${one.words} is “${text.trim()}”
        </button>
      `)}
      ${named.map((one) => html`
        <button key=${one.name} class="button quiet pick" onClick=${() => (setField(one), again())}>
          ${one.words} …
        </button>
      `)}
      ${field?.days && html`<${Days} field=${field} />`}
      ${!values.length && !typed.length && !named.length && !field?.days && html`
        <span class="faint">${field?.free && !wanted ? "Type a value." : "Nothing like that."}</span>
      `}
    </div>
  `;
}

/**
 * A value: chosen, excluded or neither.
 * @param {{ found: Found, named: boolean, close: () => void }} props
 */
function Value({ found: { field, value, words, count }, named, close }) {
  const is = chosen(field.name).includes(value);
  const isNot = chosen(`not_${field.name}`).includes(value);
  return html`
    <span class="row line">
      <button
        class="button quiet pick clip"
        aria-pressed=${is ? "true" : "false"}
        title=${words}
        onClick=${() => (toggle(field, "", value), field.one && close())}
      >
        ${is ? "✓ " : ""}
        ${named ? `${field.words}: ` : ""}
        ${words}
        ${count && html`<span class="faint"> (${count})</span>`}
      </button>
      ${field.not && html`
        <button
          class="button quiet small"
          aria-pressed=${isNot ? "true" : "false"}
          aria-label=${`${field.words} is not ${words}`}
          title="Leave it out"
          onClick=${() => toggle(field, "not_", value)}
        >
          not
        </button>
      `}
    </span>
  `;
}

/**
 * Days from and to, the last one included.
 * @param {{ field: Field }} props
 */
function Days({ field }) {
  const [from, to] = daysOf(field);
  const [first, last] = field.days ?? ["", ""];
  /** @param {string} words @param {string} name @param {string | undefined} value */
  const day = (words, name, value) => html`
    <label class="row soft">
      ${words}${" "}
      <input
        class="input"
        type="date"
        value=${value ?? ""}
        onChange=${(/** @type {FieldEvent} */ e) => setQuery({ [name]: e.target.value, [field.name]: null })}
      />
    </label>
  `;
  return html`
    ${day("from", first, from)} ${day("to", last, to)}
  `;
}

/**
 * The values of `wanted` fields: their options, and what the list has, with numbers. The field itself does not narrow
 * what it offers.
 * @param {Field[]} wanted
 * @param {Field[]} fields
 * @param {string | undefined} facets
 * @param {object | undefined} fixed
 * @param {string} text
 * @returns {Found[]}
 */
function useFound(wanted, fields, facets, fixed, text) {
  const others = wanted.length === 1 ? fields.filter((one) => one !== wanted[0]) : fields;
  /** @type {Resource<Api["FacetList"]>} */
  const counted = useResource(facets ?? null, { ...paramsOf(others), ...fixed });
  const ofDags = wanted.some((one) => OF_DAGS.includes(one.name)) && facets && facets !== "dag-facets";
  const search = wanted.length === 1 && wanted[0].name === "dag_id" ? text : null;
  /** @type {Resource<Api["FacetList"]>} */
  const known = useResource(ofDags ? "dag-facets" : null, { search });
  const more = counted.data.value?.complete === false ? "+" : "";
  const counts = counted.data.value?.counts ?? [];
  return wanted.flatMap((field) => {
    const here = counts.filter((one) => one.facet === field.name && one.value);
    const options = (field.options ?? []).map(([value]) => value);
    const there = ofDags ? (known.data.value?.counts ?? []).filter((one) => one.facet === field.name) : [];
    const values = new Set([
      ...options,
      ...here.map((one) => String(one.value)),
      ...there.flatMap((one) => one.value ?? []),
      ...(field.days ? [] : [...chosen(field.name), ...chosen(`not_${field.name}`)]),
    ]);
    return [...values].map((value) => {
      const number = here.find((one) => one.value === value)?.number;
      const isCounted = here.length > 0 || (counts.length > 0 && field.options && !field.one);
      return {
        field,
        value,
        words: wordsOf(field, value),
        count:
          number !== undefined ? `${number}${more}` : isCounted && options.includes(value) ? "0" : undefined,
      };
    });
  });
}
