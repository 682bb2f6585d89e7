// The filters of the list of DAGs, kept in the address.
import { html, useRef } from "../../lib/html.js";
import { useKey } from "../../lib/keys.js";
import { useResource } from "../../lib/resources.js";
import { query, setQuery } from "../../lib/router.js";
import { RUN_STATES } from "../../lib/states.js";
import { Filter, SearchField } from "../../parts/form.js";
import { favourites } from "./favourites.js";

/** @type {Choice[]} */
const STATUSES = [
  ["active", "active"],
  ["late", "late"],
  ["paused", "paused"],
  ["quarantine", "in quarantine"],
  ["error", "with import errors"],
  ["stale", "in no file"],
];
/** @type {Choice[]} */
const LAST_STATES = [
  ...RUN_STATES.map((state) => /** @type {Choice} */ ([state, state])),
  ["none", "no run yet"],
];

export const noFilters = { q: null, tag: null, status: null, owner: null, last_state: null, favourites: null };

/** @param {Record<string, string>} address */
export const isFiltered = (address) => Object.keys(noFilters).some((name) => address[name]);

/**
 * The parameters of the API for what is in the address.
 * @param {Record<string, string>} address
 */
export const filtersOf = ({ q, tag, status, owner, last_state, favourites: only }) => ({
  pattern: q ? `*${q}*` : null,
  tag,
  status,
  owner,
  last_state,
  dag_id: only ? favourites.value : null,
});

/** @param {{ owners: Api["OwnerCount"][] }} props */
export function Filters({ owners }) {
  const { q, tag, status, owner, last_state, favourites: only } = query.value;
  /** @type {Ref<HTMLInputElement | null>} */
  const search = useRef(null);
  useKey("/", "search DAGs", () => search.current?.focus());
  /** @type {Resource<Api["Page_Tag_"]>} */
  const tags = useResource("tags", {}, { kinds: ["dag"] });
  const known = tags.data.value?.items.map((one) => one.tag) ?? [];
  /** @param {string[]} all @param {string | undefined} chosen */
  const choices = (all, chosen) =>
    (chosen && !all.includes(chosen) ? [chosen, ...all] : all).map((one) => [one, one]);
  /** @type {[string, string, string | undefined, string, Choice[]][]} */
  const filters = [
    ["status", "Status", status, "any status", STATUSES],
    ["last_state", "Last state", last_state, "any last state", LAST_STATES],
    ["tag", "Tag", tag, "any tag", /** @type {Choice[]} */ (choices(known, tag))],
    [
      "owner",
      "Owner",
      owner,
      "any owner",
      /** @type {Choice[]} */ (
        choices(
          owners.map((one) => one.owner),
          owner,
        )
      ),
    ],
  ];
  return html`
    <div class="row">
      <${SearchField}
        field=${search}
        label="Search DAGs"
        words="Search ( / )"
        value=${q}
        onText=${(text) => setQuery({ q: text })}
      />
      ${filters.map(([name, label, value, any, options]) => html`
        <${Filter}
          key=${name}
          label=${label}
          value=${value}
          any=${any}
          options=${options}
          onText=${(text) => setQuery({ [name]: text })}
        />
      `)}
      <label class="row">
        <input
          type="checkbox"
          checked=${Boolean(only)}
          onChange=${(e) => setQuery({ favourites: e.target.checked ? 1 : null })}
        />
        Favourites
      </label>
    </div>
  `;
}
