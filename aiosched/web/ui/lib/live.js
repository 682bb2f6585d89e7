// One stream of news for the whole page: small patches with numbers, resumed by the browser with the last number it saw.
import { signal } from "./html.js";

/** "live", "connecting" or "off". */
export const connection = signal("connecting");

const listeners = new Set();
let source = null;
let topics = new Map(); // topic -> how many parts of the page want it
let last = null; // the number of the last patch: other topics go on from there

/** Be told of every patch, an object with `kind`; returns how to stop. */
export function onPatch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = (patch) => { for (const listener of [...listeners]) listener(patch); };

function connect() {
  source?.close();
  const url = new URL("api/v1/stream", document.baseURI);
  for (const topic of [...topics.keys()].sort()) url.searchParams.append("topic", topic);
  if (last) url.searchParams.set("after", last);
  connection.value = "connecting";
  source = new EventSource(url);
  source.onopen = () => { connection.value = "live"; };
  source.onerror = () => { connection.value = source.readyState === EventSource.CLOSED ? "off" : "connecting"; if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000); };
  source.onmessage = (event) => { last = event.lastEventId; tell(JSON.parse(event.data)); };
  source.addEventListener("reset", (event) => { last = event.lastEventId; tell({ kind: "reset" }); });
}

let due = null;
const reconnectSoon = () => { due ??= setTimeout(() => { due = null; connect(); }, 50); };

/** Start the stream; called once by the shell. */
export function startLive() { connect(); }

/** Want the instances of one run, too (topic `run:<key>`); returns how to stop. */
export function watchTopic(topic) {
  topics.set(topic, (topics.get(topic) || 0) + 1);
  if (topics.get(topic) === 1) reconnectSoon();
  return () => {
    const left = topics.get(topic) - 1;
    if (left) topics.set(topic, left); else { topics.delete(topic); reconnectSoon(); }
  };
}
addEventListener("pagehide", () => source?.close());
