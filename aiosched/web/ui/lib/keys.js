// Keyboard shortcuts: each is registered with a label, so that "?" can list them.
import { signal, useLayoutEffect, useRef } from "./html.js";

/**
 * What "?" lists: `[keys, label]`, in order of registration.
 * @type {Signal<[string, string][]>}
 */
export const shortcuts = signal([]);
/** @type {{ keys: string, label: string, act: (event: KeyboardEvent) => unknown }[]} */
const bound = [];
let pending = "";
/** @type {number | undefined} */
let resetTimer;

/**
 * The field that an event is for.
 * @param {EventTarget | null} target
 * @returns {HTMLElement | null | undefined}
 */
const typing = (target) =>
  /** @type {Partial<HTMLElement>} */ (target).closest?.("input, textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  if (
    (event.ctrlKey || event.metaKey) &&
    !event.altKey &&
    !event.shiftKey &&
    !document.querySelector("dialog[open]")
  ) {
    const found = bound.findLast((entry) => entry.keys === `Ctrl ${event.key.toUpperCase()}`); // also in fields
    if (found) {
      event.preventDefault();
      found.act(event);
      return;
    }
  }
  if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = typing(event.target);
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  pending = (pending + " " + event.key).trim();
  clearTimeout(resetTimer);
  // "g r" takes precedence over "r"
  const found =
    bound.findLast((entry) => entry.keys === pending) ?? bound.findLast((entry) => entry.keys === event.key);
  if (found) {
    pending = "";
    event.preventDefault();
    found.act(event);
    return;
  }
  if (!bound.some((entry) => entry.keys.startsWith(pending + " "))) pending = "";
  resetTimer = setTimeout(() => {
    pending = "";
  }, 1500);
});

/**
 * Bind `keys` ("g d", "t", "?") while the component is mounted.
 * @param {string} keys
 * @param {string} label
 * @param {(event: KeyboardEvent) => unknown} act
 */
export function useKey(keys, label, act) {
  const current = useRef(act);
  current.current = act;
  useLayoutEffect(() => {
    // a layout effect: shortcuts work as soon as the page is visible
    /** @type {typeof bound[number]} */
    const entry = { keys, label, act: (event) => current.current(event) };
    bound.push(entry);
    shortcuts.value = bound.map((one) => [one.keys, one.label]);
    return () => {
      bound.splice(bound.indexOf(entry), 1);
      shortcuts.value = bound.map((one) => [one.keys, one.label]);
    };
  }, [keys]);
}
