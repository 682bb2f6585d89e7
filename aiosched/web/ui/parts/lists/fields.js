// The filters that lists have: their names in the address and in the API, their values, and the words for both.
import { serverNow } from "../../lib/freshness.js";
import { query, setQuery, valuesOf } from "../../lib/router.js";
import { RUN_STATES, RUN_TYPES, STATES, runTypeWords, stateOf } from "../../lib/states.js";
import { startOfDay } from "../../lib/time.js";

/**
 * A filter. Its values are `options`, or those that a list has (its facet of that name); `free`: also any text. `one`:
 * it has a single value; `not`: values can be excluded, too (`not_` and the name). With `days` it is a time: one of the
 * options, or days that are in the address under these two names.
 *
 * @typedef {object} Field
 * @property {string} name
 * @property {string} words
 * @property {[value: string, words: string][]} [options]
 * @property {(value: string) => string} [wordsOf]
 * @property {boolean} [one]
 * @property {boolean} [not]
 * @property {boolean} [free]
 * @property {RegExp} [like] what a text has to be
 * @property {string} [hint]
 * @property {string[]} [days]
 */

/** @type {[string, string][]} */
const LENGTHS = [
  ["10", "10 s"],
  ["60", "1 min"],
  ["600", "10 min"],
  ["3600", "1 h"],
  ["21600", "6 h"],
];
/** @type {[string, string][]} */
const PERIODS = [
  ["1h", "last hour"],
  ["24h", "last 24 hours"],
  ["7d", "last 7 days"],
];
/** @type {Record<string, number>} */
const SECONDS = { "1h": 3600, "24h": 86400, "7d": 604800 };
const MINUTE = 60_000;

/** @param {string[]} names @returns {[string, string][]} */
const labelled = (names) => names.map((name) => [name, stateOf(name).label]);

/** @type {Field} */
export const OF_DAG = { name: "dag_id", words: "DAG", not: true, free: true };
/** @type {Field[]} */
const OF_DAGS = [
  { name: "owner", words: "Owner", not: true, free: true },
  { name: "team", words: "Team", not: true },
  { name: "tag", words: "Tag", not: true, free: true },
];
/** @type {Field} */
const TYPE = {
  name: "run_type",
  words: "Type",
  not: true,
  options: RUN_TYPES.map((name) => [name, runTypeWords(name)]),
};
/** @type {Field} */
export const TIME = { name: "time", words: "Time", one: true, options: PERIODS, days: ["from", "to"] };
/** @type {Field[]} */
const DURATIONS = [
  { name: "longer", words: "Longer than", one: true, options: LENGTHS },
  { name: "shorter", words: "Shorter than", one: true, options: LENGTHS },
];
/** @type {Field[]} */
const OF_RUNS = [
  TYPE,
  TIME,
  { name: "logical", words: "Logical date", one: true, days: ["logical_from", "logical_to"] },
  {
    name: "version",
    words: "Version",
    one: true,
    free: true,
    like: /^\s*\d+\s*$/,
    hint: "Number of a version",
  },
  { name: "asset", words: "Asset", one: true, free: true, hint: "Updated, or that triggered it" },
  { name: "conf", words: "Conf", free: true, like: /.=/, hint: "KEY=VALUE" },
];

/** @type {Field[]} */
export const RUN_FIELDS = [
  { name: "state", words: "State", not: true, options: labelled(RUN_STATES) },
  OF_DAG,
  ...OF_DAGS,
  ...OF_RUNS,
  { name: "reason", words: "Error", one: true, free: true },
  ...DURATIONS,
];

/** The states that a task instance can have. */
export const INSTANCE_STATES = labelled(
  Object.keys(STATES).filter((name) => !["paused", "mixed"].includes(name)),
);

/** @type {Field[]} */
export const INSTANCE_FIELDS = [
  { name: "state", words: "State", not: true, options: INSTANCE_STATES },
  OF_DAG,
  ...OF_DAGS,
  ...OF_RUNS,
  { name: "operator", words: "Operator", not: true },
  { name: "pool", words: "Pool", not: true },
  { name: "reason", words: "Error", one: true, free: true },
  ...DURATIONS,
];

/** @type {Field[]} */
export const DAG_FIELDS = [
  {
    name: "status",
    words: "Status",
    not: true,
    options: [
      ["active", "active"],
      ["late", "late"],
      ["paused", "paused"],
      ["quarantine", "in quarantine"],
      ["error", "with import errors"],
      ["stale", "in no file"],
    ],
  },
  {
    name: "last_state",
    words: "Last state",
    not: true,
    options: [...labelled(RUN_STATES), ["none", "no run yet"]],
  },
  ...OF_DAGS,
];

/**
 * The values of a filter in the address; states may also be separated by commas.
 * @param {string} name
 */
export const chosen = (name) =>
  valuesOf(name).flatMap((one) => (name.endsWith("state") ? one.split(",") : [one]));

/**
 * The days of a time in the address.
 * @param {Field} field
 */
export const daysOf = ({ days = ["", ""] }) => days.map((name) => query.value[name]);

/**
 * The first instant of a time and the one that ends it, to the minute so that a list is not read anew all the time.
 * @param {Field} field
 * @returns {[since: string | undefined, until: string | undefined]}
 */
function spanOf(field) {
  const period = SECONDS[query.value[field.name]];
  if (period) {
    const now = Math.floor(serverNow() / MINUTE) * MINUTE;
    return [new Date(now - period * 1000).toISOString(), undefined];
  }
  const [from, to] = daysOf(field);
  return [startOfDay(from), startOfDay(to, 1)];
}

/** The parameters of the API for filters that the address has under another name or in other units. */
/** @type {Record<string, (field: Field) => Record<string, string | undefined>>} */
const OTHERS = {
  time: (field) => {
    const [since, until] = spanOf(field);
    return query.value.order?.endsWith("end_date")
      ? { ended_since: since, ended_until: until }
      : { since, until };
  },
  logical: (field) => {
    const [logical_since, logical_until] = spanOf(field);
    return { logical_since, logical_until };
  },
  longer: () => ({ min_seconds: query.value.longer }),
  shorter: () => ({ max_seconds: query.value.shorter }),
};

/**
 * What the filters in the address mean to the API; the time is that by which the list is sorted.
 * @param {Field[]} fields
 * @returns {Record<string, string | string[] | undefined>}
 */
export const paramsOf = (fields) =>
  Object.assign(
    {},
    ...fields.map((field) => {
      const { name, one, not } = field;
      if (OTHERS[name]) return OTHERS[name](field);
      if (one) return { [name]: query.value[name] };
      return { [name]: chosen(name), ...(not && { [`not_${name}`]: chosen(`not_${name}`) }) };
    }),
  );

/**
 * The names in the address of a filter.
 * @param {Field} field
 */
const namesOf = ({ name, days = [] }) => [name, `not_${name}`, ...days];

/** @param {Field[]} fields */
export const isFiltered = (fields) => fields.some((field) => namesOf(field).some((name) => query.value[name]));

/**
 * Remove filters from the address.
 * @param {Field[]} fields
 */
export const clearFilters = (fields) =>
  setQuery(Object.fromEntries(fields.flatMap(namesOf).map((name) => [name, null])));

/**
 * The words for a value.
 * @param {Field} field
 * @param {string} value
 */
export const wordsOf = ({ options, wordsOf: words }, value) =>
  words?.(value) ?? options?.find(([one]) => one === value)?.[1] ?? value;

/**
 * The filters in the address, each with its words: `is` says how the values are meant, `sign` "" or "not_".
 * @param {Field[]} fields
 * @returns {{ field: Field, sign: string, is: string, values: string }[]}
 */
export function chipsOf(fields) {
  return fields.flatMap((field) => {
    const days = daysOf(field).map((day) => (startOfDay(day) ? day : ""));
    if (field.days && days.some(Boolean)) return [{ field, sign: "", is: "is", values: days.join(" to ") }];
    const several = field.name === "tag" || field.name === "conf" ? " and " : " or ";
    return ["", "not_"].flatMap((sign) => {
      const values = chosen(sign + field.name).filter((value) => !(field.days && value === "range"));
      if (!values.length) return [];
      const words = values.map((value) => wordsOf(field, value)).join(sign ? " or " : several);
      return [{ field, sign, is: sign ? "is not" : "is", values: words }];
    });
  });
}

/**
 * Choose a value, or take it back; a filter never includes and excludes the same value.
 * @param {Field} field
 * @param {string} sign
 * @param {string} value
 */
export function toggle({ name, one, days = [] }, sign, value) {
  const other = sign ? "" : "not_";
  const now = chosen(sign + name);
  const next = now.includes(value) ? now.filter((each) => each !== value) : one ? [value] : [...now, value];
  setQuery({
    [sign + name]: next,
    [other + name]: chosen(other + name).filter((each) => each !== value),
    ...Object.fromEntries(days.map((day) => [day, null])),
  });
}

/**
 * Take a filter out of the address.
 * @param {Field} field
 * @param {string} sign
 */
export const removeFilter = ({ name, days = [] }, sign) =>
  setQuery({ [sign + name]: null, ...Object.fromEntries(days.map((day) => [day, null])) });
