// One stream of news for the whole page: small patches with numbers, resumed by the browser with the last one it saw.
import { signal } from "./html.js";

const PATIENCE = 6000; // milliseconds without a connection that nobody needs to know of

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

let missing = null;
/** Whether the stream stands; one that is away for a moment is only connecting. */
function stands(so) {
  if (so) {
    clearTimeout(missing);
    missing = null;
    connection.value = "live";
    return;
  }
  if (connection.value === "live") connection.value = "connecting";
  missing ??= setTimeout(() => {
    connection.value = "off";
  }, PATIENCE);
}

const tell = (patch) => {
  for (const listener of [...listeners]) listener(patch);
};

function connect() {
  source?.close();
  const url = new URL("api/v1/stream", document.baseURI);
  for (const topic of [...topics.keys()].sort()) url.searchParams.append("topic", topic);
  if (last) url.searchParams.set("after", last);
  stands(false);
  source = new EventSource(url);
  source.onopen = () => stands(true);
  source.onerror = () => {
    stands(false);
    if (source.readyState === EventSource.CLOSED) reconnectSoon(3000);
  }; // else the browser tries again itself
  source.onmessage = (event) => {
    last = event.lastEventId;
    tell(JSON.parse(event.data));
  };
  source.addEventListener("reset", (event) => {
    last = event.lastEventId;
    tell({ kind: "reset" });
  });
}

let due = null;
const reconnectSoon = (ms = 50) => {
  due ??= setTimeout(() => {
    due = null;
    connect();
  }, ms);
};

/** Start the stream; called once by the shell. */
export function startLive() {
  connect();
}

/** Want the instances of one run, too (topic `run:<key>`); returns how to stop. */
export function watchTopic(topic) {
  topics.set(topic, (topics.get(topic) || 0) + 1);
  if (topics.get(topic) === 1) reconnectSoon();
  return () => {
    const left = topics.get(topic) - 1;
    if (left) topics.set(topic, left);
    else {
      topics.delete(topic);
      reconnectSoon();
    }
  };
}
addEventListener("pagehide", () => source?.close());
