// The conf of a triggered run: the params that differ from their defaults.
import { kindOf, schemaOf, toText, toValue } from "../../lib/schema.js";
import { objectOf } from "../facts.js";

/** @typedef {import("../../lib/schema.js").FieldText} FieldText */
/** @typedef {import("../../lib/schema.js").Param} Param */

/** @param {string} text */
const looksLikeJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return /^\s*(NaN|-?Infinity)\s*$/.test(text); // which Python reads
  }
};

/**
 * The values that differ from the defaults, and the errors of invalid ones.
 * @param {Record<string, Param>} params
 * @param {Record<string, FieldText>} texts
 * @param {string} more
 */
export function confOf(params, texts, more) {
  const { value, wrong: confError } = objectOf(more);
  /** @type {Record<string, unknown>} */
  const conf = { ...value };
  /** @type {Record<string, string>} */
  const wrong = confError ? { conf: confError } : {};
  for (const [name, param] of Object.entries(params)) {
    const schema = schemaOf(param);
    const kind = kindOf(schema, param.value);
    if ((!param.required || kind === "password") && texts[name] === toText(kind, param.value)) continue;
    try {
      conf[name] = toValue(kind, texts[name], schema);
    } catch (error) {
      wrong[`conf.${name}`] = error.message;
    }
  }
  return { conf, wrong };
}

/**
 * The options of a command line that give the same values; `***` for passwords.
 * @param {Record<string, Param>} params
 * @param {Record<string, unknown>} conf
 */
export function flagsOf(params, conf) {
  /** @type {Record<string, unknown>} */
  const odd = {}; // whose names are no names of -p
  const pairs = Object.entries(conf).flatMap(([name, value]) => {
    const shown = kindOf(schemaOf(params[name]), value) === "password" ? "***" : value;
    if (!name || name.includes("=")) return ((odd[name] = shown), []);
    const isText = typeof shown === "string" && !looksLikeJson(shown);
    return ["-p", `${name}=${isText ? shown : JSON.stringify(shown)}`];
  });
  return Object.keys(odd).length ? ["--conf", JSON.stringify(odd), ...pairs] : pairs;
}

/**
 * The names of params whose values are secrets, at least in part.
 * @param {Record<string, Param>} params
 */
export const secretsOf = (params) =>
  Object.keys(params).filter((name) =>
    /"format":"password"/.test(JSON.stringify(params[name].json_schema ?? {})),
  );

/**
 * The initial texts of the param fields: the defaults.
 * @param {Record<string, Param>} params
 */
export const textsOf = (params) =>
  Object.fromEntries(
    Object.entries(params).map(([name, param]) => [
      name,
      toText(kindOf(schemaOf(param), param.value), param.value),
    ]),
  );
