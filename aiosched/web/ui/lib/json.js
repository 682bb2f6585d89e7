// JSON without silently rounded numbers: a browser rounds whole numbers from 2^53 on, Python and PostgreSQL do not.

/**
 * @param {unknown} value
 * @returns {value is number}
 */
const isRounded = (value) =>
  typeof value === "number" &&
  !Number.isSafeInteger(value) &&
  (Number.isInteger(value) || !Number.isFinite(value));

/** A whole number that the browser would round; as text and as JSON it is what the server has sent. */
class LargeNumber extends Number {
  /** @param {string} source */
  constructor(source) {
    super(source);
    this.source = source;
  }
  toString() {
    return this.source;
  }
  toJSON() {
    return JSON.rawJSON?.(this.source);
  }
}

/**
 * Parse JSON of the server. Large whole numbers stay as they are; where the browser cannot do that, they become text
 * that says so.
 * @param {string} text
 * @returns {any}
 */
export const received = (text) => (/\d{16}/.test(text) ? JSON.parse(text, keepLarge) : JSON.parse(text));

/**
 * @param {string} _name
 * @param {unknown} value
 * @param {{ source?: string }} [context] unless the browser is old
 */
function keepLarge(_name, value, context) {
  if (!isRounded(value)) return value;
  if (!JSON.rawJSON || !context?.source) return `${value} (rounded by this browser)`;
  return /^-?\d+$/.test(context.source) ? new LargeNumber(context.source) : value;
}

/**
 * Parse JSON that a user has typed; throws a RangeError, with a message for the user, if a number would change.
 * @param {string} text
 * @returns {any}
 */
export const typed = (text) =>
  JSON.parse(text, (_name, value) => {
    if (isRounded(value))
      throw new RangeError("A number is too large for the browser: use the command line instead");
    return value;
  });

/**
 * A value with marks of its types, for people: `{"$aiosched": "decimal", "value": "2.50"}` is `decimal 2.50`. As
 * core/values/typed_json.py has it.
 * @param {any} value
 * @returns {any}
 */
export function readable(value) {
  if (Array.isArray(value)) return value.map(readable);
  if (value === null || typeof value !== "object" || value instanceof Number) return value;
  const kind = Object.hasOwn(value, "$aiosched") ? value.$aiosched : null;
  if (typeof kind !== "string")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, readable(item)]));
  const inner = readable(value.value);
  if (kind === "dict" && Array.isArray(inner) && inner.every(isPair))
    return Object.fromEntries(
      inner.map(([key, item]) => [typeof key === "string" ? key : JSON.stringify(key), item]),
    );
  const name = String(value.class ?? kind)
    .split(":")
    .at(-1);
  if (inner !== null && typeof inner === "object") return { [String(name)]: inner };
  const zone = value.zone ?? value.pendulum_zone;
  return `${name} ${inner}${zone ? ` [${zone}]` : ""}`;
}

/** @param {any} pair */
const isPair = (pair) =>
  Array.isArray(pair) && pair.length === 2 && (pair[0] === null || typeof pair[0] !== "object");
