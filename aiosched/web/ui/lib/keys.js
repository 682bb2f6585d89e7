// Keyboard: every shortcut is registered with words, so that "?" can list them.
import { signal, useLayoutEffect, useRef } from "./html.js";

/** What "?" lists: `[keys, words]`, in order of registration. */
export const shortcuts = signal([]);
const bound = [];
let pending = "";
let forget = null;

/** @param {any} target */
const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = typing(event.target);
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  pending = (pending + " " + event.key).trim();
  clearTimeout(forget);
  // "g r" before "r"
  const found =
    bound.findLast((entry) => entry.keys === pending) ?? bound.findLast((entry) => entry.keys === event.key);
  if (found) {
    pending = "";
    event.preventDefault();
    found.act(event);
    return;
  }
  if (!bound.some((entry) => entry.keys.startsWith(pending + " "))) pending = "";
  forget = setTimeout(() => {
    pending = "";
  }, 1500);
});

/** Bind `keys` ("g d", "t", "?") as long as the component lives. */
export function useKey(keys, words, act) {
  const now = useRef(act);
  now.current = act;
  useLayoutEffect(() => {
    // what is seen can be used
    const entry = { keys, words, act: (event) => now.current(event) };
    bound.push(entry);
    shortcuts.value = bound.map((one) => [one.keys, one.words]);
    return () => {
      bound.splice(bound.indexOf(entry), 1);
      shortcuts.value = bound.map((one) => [one.keys, one.words]);
    };
  }, [keys]);
}
