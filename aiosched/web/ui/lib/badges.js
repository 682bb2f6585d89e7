// How many things wait for somebody, for the navigation.
import { signal, useEffect } from "./html.js";
import { get } from "./api.js";
import { onPatch } from "./live.js";

/** @type {Signal<Api["Badges"] | null>} */
export const badges = signal(null);

const PATIENCE = 3000; // milliseconds; patches come in bursts
const INTERVAL = 30_000;

/** Which number stands at which page. @type {Record<string, keyof Api["Badges"]>} */
const PLACES = { "/inputs": "inputs", "/alerts": "alerts", "/import-errors": "import_errors" };

/** The number at a page of the navigation: 0 for none. @param {string} to */
export const badgeOf = (to) => (PLACES[to] && badges.value?.[PLACES[to]]) || 0;

/** Read the numbers now, when something has changed, and now and then. */
export function useBadges() {
  useEffect(() => {
    const abort = new AbortController();
    /** @type {number | undefined} */
    let timer;
    const read = async () => {
      timer = undefined;
      if (document.hidden && badges.value) return;
      try {
        badges.value = await get("badges", {}, { signal: abort.signal });
      } catch {
        // the pages say what is wrong; the numbers are read again
      }
    };
    read();
    const soon = () => {
      timer ??= setTimeout(read, PATIENCE);
    };
    const off = onPatch(soon);
    const poll = setInterval(soon, INTERVAL);
    document.addEventListener("visibilitychange", soon);
    return () => {
      abort.abort();
      off();
      clearTimeout(timer);
      clearInterval(poll);
      document.removeEventListener("visibilitychange", soon);
    };
  }, []);
}
