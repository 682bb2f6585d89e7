// What was typed into a dialog when the session ended, until the same person has logged in again in this tab.
// No secrets.
import { loginNeeded, me } from "./api.js";
import { useEffect, useRef, useState } from "./html.js";

const KEY = "aiosched.drafts";
// Names of secrets, as the server knows them (core/values/masking.py), here also within the text of JSON.
const WORDS =
  "pass_?w|passphrase|passcode|secret|token|credential|authorization|keyfile_dict|service_account|cookie" +
  "|(^|_)pwd(_|$)|(^|_)pass(_phrase|_code|_key)?$" +
  "|(api|access|account|private|encryption|signing|shared|fernet|master|ssh)_?keys?(_|$)";
const SENSITIVE = new RegExp(WORDS, "i");

/** @param {string} name */
const isSensitive = (name) => SENSITIVE.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/\W/g, "_"));

/**
 * Whether a text has a field of such a name, as JSON has, or an address with a password.
 * @param {string} text
 * @param {string[]} secrets
 */
const hasSecret = (text, secrets) =>
  /:\/\/[^/\s]*@/.test(text) ||
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:/g)].some(
    ([, name]) => secrets.includes(name) || isSensitive(name),
  );

/**
 * A copy without what may be a secret: fields of these names, of the names of secrets, and texts that have such names.
 * @param {unknown} value
 * @param {string[]} secrets
 * @returns {unknown}
 */
export function withoutSecrets(value, secrets) {
  if (typeof value === "string") return hasSecret(value, secrets) ? undefined : value;
  if (Array.isArray(value)) return value.map((one) => withoutSecrets(one, secrets));
  if (typeof value !== "object" || value === null) return value;
  const open = Object.entries(value).filter(([name]) => !secrets.includes(name) && !isSensitive(name));
  return Object.fromEntries(open.map(([name, one]) => [name, withoutSecrets(one, secrets)]));
}

/**
 * What is kept, by dialog, if it is of the current user; what another one has left is removed.
 * @returns {Record<string, unknown>}
 */
function mine() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    if (found?.user === me.value?.name) return found?.drafts ?? {};
    sessionStorage.removeItem(KEY);
  } catch {
    // not allowed, or somebody has edited it
  }
  return {};
}

/** @param {Record<string, unknown>} drafts */
function store(drafts) {
  try {
    if (Object.keys(drafts).length)
      sessionStorage.setItem(KEY, JSON.stringify({ user: me.value?.name, drafts }));
    else sessionStorage.removeItem(KEY);
  } catch {
    // not allowed: it is gone with the page
  }
}

/** Whether something is kept for the current user. */
export const hasDrafts = () => Object.keys(mine()).length > 0;

/** Somebody leaves: nothing is kept. */
export const forgetDrafts = () => store({});

/**
 * `first` with what was typed: fields of objects one by one, so that a field that was not kept is as at first.
 * @template T
 * @param {T} first
 * @param {any} typed
 * @returns {T}
 */
function filledIn(first, typed) {
  const isPlain = (/** @type {unknown} */ one) =>
    typeof one === "object" && one !== null && !Array.isArray(one);
  if (!isPlain(first) || !isPlain(typed)) return typed === undefined ? first : typed;
  const fields = Object.entries(typed).map(([name, one]) => [
    name,
    filledIn(/** @type {any} */ (first)[name], one),
  ]);
  return { ...first, ...Object.fromEntries(fields) };
}

/**
 * The state of a dialog's form, as by `useState`. If the session ends while the dialog is open, the form is filled in
 * again when the same user opens the dialog again.
 * @template T
 * @param {unknown[]} about the dialog, and what it is about
 * @param {T | (() => T)} first plain data
 * @param {string[]} [secrets] names of fields that are never kept
 * @returns {[T, (draft: T) => void]}
 */
export function useDraft(about, first, secrets = []) {
  const name = JSON.stringify(about);
  const begun = useRef(/** @type {T | null} */ (null)); // null: filled in
  const [draft, setDraft] = useState(() => {
    const { [name]: typed, ...others } = mine();
    const empty = first instanceof Function ? first() : first;
    if (typed === undefined) return (begun.current = empty);
    store(others);
    return filledIn(empty, typed);
  });
  const now = useRef(draft);
  now.current = draft;
  useEffect(
    () => () => {
      if (!loginNeeded.value || now.current === begun.current) return;
      store({ ...mine(), [name]: withoutSecrets(now.current, secrets) });
    },
    [name],
  );
  return [draft, setDraft];
}
