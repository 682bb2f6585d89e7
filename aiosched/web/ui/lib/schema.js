// Form fields for params with JSON schemas: kind of field, conversion between text and values. No DOM here.
import { typed } from "./json.js";

/**
 * What is used of a JSON schema; `values_display` are the labels of the values of an enum.
 * @typedef {object} Schema
 * @property {string | string[]} [type]
 * @property {unknown[]} [enum]
 * @property {unknown} [const]
 * @property {string} [format]
 * @property {Schema} [items]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [minLength]
 * @property {number} [maxLength]
 * @property {string} [pattern]
 * @property {string} [title]
 * @property {string} [description]
 * @property {unknown[]} [examples]
 * @property {Record<string, string>} [values_display]
 *
 * A param of a DAG; `value` is its default, `typed` says of which type that is if JSON does not.
 * @typedef {{ json_schema?: Schema, description?: string, required?: boolean, value?: unknown,
 *   typed?: unknown }} Param
 *
 * What a field holds while it is edited: text, or whether a box is checked.
 * @typedef {string | boolean} FieldText
 */

/** @param {unknown} value */
const isText = (value) => typeof value === "string";
/** @param {unknown} value */
const isNumber = (value) => typeof value === "number";
/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @type {Record<keyof Schema, (value: unknown) => boolean>} */
const READABLE = {
  type: (value) => [value].flat().every(isText),
  enum: Array.isArray,
  const: (value) => value !== undefined,
  format: isText,
  items: isObject,
  minimum: isNumber,
  maximum: isNumber,
  minLength: isNumber,
  maxLength: isNumber,
  pattern: isText,
  title: isText,
  description: isText,
  examples: Array.isArray,
  values_display: isObject,
};

/**
 * What is used of a param's schema. A keyword of the wrong kind is left out: no stored one breaks the form.
 * @param {Param | undefined} param
 * @returns {Schema}
 */
export function schemaOf(param) {
  const format = formatOf(param);
  const given = { ...(format && { format }), ...param?.json_schema };
  const keywords = /** @type {(keyof Schema)[]} */ (Object.keys(READABLE));
  return Object.fromEntries(
    keywords.filter((one) => READABLE[one](given[one])).map((one) => [one, given[one]]),
  );
}

/**
 * The format of the default if it is a date or time. Without an offset a time is text: browsers read it as theirs.
 * @param {Param | undefined} param
 */
function formatOf(param) {
  const kind = String(isObject(param?.typed) ? /** @type {any} */ (param?.typed).$aiosched : "");
  const format = { datetime: "date-time", date: "date", time: "time" }[
    kind.split(".").at(-1)?.toLowerCase() ?? ""
  ];
  return format === "date-time" && !/(Z|[+-]\d\d:\d\d)$/.test(String(param?.value)) ? undefined : format;
}

/**
 * @param {Schema} schema
 * @returns {string[]}
 */
const typesOf = (schema) => [schema.type ?? []].flat();

/**
 * The kind of field for a param: "enum", "boolean", "number", "lines", "json", "date", "date-time", "time",
 * "multiline", "password" or "text".
 * @param {Schema} schema
 * @param {unknown} value
 */
export function kindOf(schema, value) {
  if (schema.enum || schema.const !== undefined) return "enum";
  const types = typesOf(schema).filter((type) => type !== "null");
  const type = types.length > 1 ? "json" : (types[0] ?? inferred(value));
  if (type === "boolean") return mayBeNull(schema) ? "enum" : "boolean";
  if (type === "integer" || type === "number") return "number";
  if (type === "array") return isLines(schema.items, value) ? "lines" : "json";
  return type === "string" ? kindOfText(schema.format ?? "", String(value ?? "")) : "json";
}

const FITTING = new Map([
  ["date", /^(\d{4}-\d\d-\d\d)?$/],
  ["time", /^(\d\d:\d\d(:\d\d)?)?$/],
]);

/**
 * A field of the format if it can hold `text`: a browser's field of a time can hold none with an offset.
 * @param {string} format
 * @param {string} text
 */
function kindOfText(format, text) {
  if (["date-time", "multiline", "password"].includes(format) || FITTING.get(format)?.test(text)) return format;
  return /[\r\n]/.test(text) ? "multiline" : "text";
}

/** @param {unknown} value */
const inferred = (value) =>
  Array.isArray(value)
    ? "array"
    : value === null || value === undefined
      ? "json"
      : typeof value === "object"
        ? "json"
        : typeof value;

/**
 * Whether a list is one of texts that can be edited as lines: none of them is empty or has a line break.
 * @param {Schema | undefined} items
 * @param {unknown} value
 */
function isLines(items, value) {
  const texts = Array.isArray(value) ? value : [];
  const isTextual = items ? typesOf(items)[0] === "string" && !items.enum : texts.length > 0;
  return isTextual && texts.every((one) => typeof one === "string" && /^[^\r\n]+$/.test(one));
}

/** @param {Schema} schema */
export const mayBeNull = (schema) => typesOf(schema).includes("null") || schema.enum?.includes(null) || false;

/**
 * The values of a param of kind "enum", with null where it is allowed.
 * @param {Schema} schema
 */
export function valuesOf(schema) {
  const values = schema.enum ?? (schema.const === undefined ? [true, false] : [schema.const]);
  return mayBeNull(schema) && !values.includes(null) ? [null, ...values] : values;
}

/**
 * The text a field shows for a value: none for a password; booleans stay booleans.
 * @param {string} kind
 * @param {unknown} value
 * @returns {FieldText}
 */
export function toText(kind, value) {
  if (kind === "boolean") return value === true;
  if (kind === "enum") return value === undefined ? "" : JSON.stringify(value);
  if (value === null || value === undefined || kind === "password") return "";
  if (kind === "json") return JSON.stringify(value, null, 2);
  if (kind === "lines") return /** @type {string[]} */ (value).join("\n");
  if (kind === "date-time") {
    const text = /** @type {string} */ (value);
    return Number.isNaN(Date.parse(text)) ? "" : new Date(text).toISOString().slice(0, 19);
  }
  return String(value);
}

/**
 * Parse a field's text into a value; throws an Error with a message for the user.
 * @param {string} kind
 * @param {FieldText} text
 * @param {Schema} schema
 * @returns {unknown}
 */
export function toValue(kind, text, schema) {
  if (kind === "boolean" || typeof text === "boolean") return text;
  if (kind === "enum") return text === "" ? missing(schema, "choose one") : typed(text);
  if (kind === "lines") return text.split("\n").filter((line) => line !== "");
  if (kind === "text" || kind === "multiline") return text === "" && mayBeNull(schema) ? null : text;
  if (text.trim() === "") return missing(schema, "a value is required");
  if (kind === "number") return numberOf(text, schema);
  if (kind === "date-time") return utc(text);
  if (kind === "json") {
    try {
      return typed(text);
    } catch (error) {
      if (error instanceof RangeError) throw error;
      throw new Error(`is not valid JSON: ${text.length > 30 ? text.slice(0, 30) + " …" : text}`);
    }
  }
  return text;
}

/**
 * @param {Schema} schema
 * @param {string} message
 */
function missing(schema, message) {
  if (mayBeNull(schema)) return null;
  throw new Error(message);
}

/**
 * @param {string} text
 * @param {Schema} schema
 */
function numberOf(text, schema) {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`is not a number: ${text}`);
  if (/^\s*[+-]?\d+\s*$/.test(text) && !Number.isSafeInteger(value))
    throw new Error("is too large for the browser: use the command line instead");
  if (typesOf(schema).includes("integer") && !typesOf(schema).includes("number") && !Number.isInteger(value))
    throw new Error(`is not a whole number: ${text}`);
  return value;
}

/**
 * The value of a `datetime-local` field, read as UTC.
 * @param {string} text
 */
export const utc = (text) => (text ? `${text.length === 16 ? text + ":00" : text}Z` : null);

/**
 * The limits of a schema as text: "1 to 14", "at least 2 characters".
 * @param {Schema} schema
 */
export function limitsOf(schema) {
  const words = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined)
    words.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) words.push(`at least ${schema.minimum}`);
  else if (schema.maximum !== undefined) words.push(`at most ${schema.maximum}`);
  if (schema.minLength) words.push(`at least ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) words.push(`at most ${schema.maxLength} characters`);
  if (schema.pattern) words.push(`matches ${schema.pattern}`);
  if (schema.format === "date-time") words.push("UTC");
  return words.join(", ");
}
