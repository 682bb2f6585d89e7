// The single entry point to the vendored libraries: `html` templates, hooks and signals.
import { h, render, Fragment, createContext } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { h, render, Fragment, createContext };
export {
  useState,
  useEffect,
  useLayoutEffect,
  useRef,
  useMemo,
  useCallback,
  useContext,
} from "../vendor/hooks.js";
export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect } from "../vendor/signals.js";
export const html = htm.bind(h);

/**
 * Join class names, skipping falsy ones.
 * @param {...(string | false | null | undefined)} names
 */
export const classes = (...names) => names.filter(Boolean).join(" ");
