// One event stream for the whole page: numbered patches; the browser resumes after the last one it received.
// It also brings the server's status (freshness.js); once the page is no longer cut off, everything is read again.
import { address, refusalOf, see } from "./api.js";
import { hear, isCutOff, listen, refuse } from "./freshness.js";
import { effect } from "./html.js";

const REFUSED_AGAIN = 15_000; // milliseconds until a stream is tried again that the user may not read
const HIDDEN = 5000; // milliseconds in the background after which a tab has no stream

/** @type {Set<(patch: Patch) => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
let wanted = false; // somebody is logged in
/** @type {Map<string, number>} */
let topics = new Map(); // topic -> number of subscribers
/** @type {string | null} */
let last = null; // number of the last patch: a stream with other topics continues from there

/**
 * Subscribe to all patches, objects with `kind`; returns a function that unsubscribes.
 * @param {(patch: Patch) => void} listener
 */
export function onPatch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** @param {Patch} patch */
const publish = (patch) => {
  for (const listener of [...listeners]) listener(patch);
};

let wasCutOff = false;
effect(() => {
  if (wasCutOff && !isCutOff.value) publish({ kind: "reset" });
  wasCutOff = isCutOff.value;
});

function connect() {
  source?.close();
  const params = { topic: [...topics.keys()].sort(), after: last };
  const opened = (source = new EventSource(address("stream", params)));
  source.onerror = async () => {
    if (opened.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
    const refusal = await refusalOf("stream", params); // which an EventSource does not tell
    if (opened !== source) return; // as after a logout
    refuse(refusal);
    reconnectSoon(refusal ? REFUSED_AGAIN : 2000);
  };
  source.onmessage = (event) => {
    last = event.lastEventId;
    publish(JSON.parse(event.data));
  };
  source.addEventListener("position", (event) => see(event.data));
  source.addEventListener("status", (event) => hear(JSON.parse(event.data)));
  source.addEventListener("reset", (event) => {
    last = event.lastEventId;
    publish({ kind: "reset" });
  });
}

/** @type {number | undefined} */
let reconnectTimer;
const reconnectSoon = (ms = 50) => {
  reconnectTimer ??= setTimeout(() => {
    reconnectTimer = undefined;
    if (wanted && (source || !document.hidden)) connect();
  }, ms);
};

function disconnect() {
  source?.close();
  source = null;
}

/** In the background nothing is heard; in front again, everything is read again. */
function leave() {
  disconnect();
  listen(false);
}

/** @type {number | undefined} */
let hiddenTimer;

/**
 * The tab has come to the front, or is in the background, where it has no stream: without HTTP/2 a browser has at most
 * six connections to a server, and each stream takes one.
 */
function turn() {
  clearTimeout(hiddenTimer);
  if (document.hidden && source) hiddenTimer = setTimeout(leave, HIDDEN);
  if (document.hidden || source || !wanted) return;
  connect();
  listen(true);
}
document.addEventListener("visibilitychange", turn);
addEventListener("pageshow", turn);
addEventListener("pagehide", (event) => (event.persisted ? leave() : disconnect()));

/** Start the stream, or start it anew for another user; called by the shell. */
export function startLive() {
  wanted = true;
  disconnect();
  if (document.hidden) leave();
  else {
    connect();
    listen(true);
  }
}

/** Nobody is logged in any more; called by the shell. */
export function stopLive() {
  wanted = false;
  leave();
}

/**
 * Subscribe to the task instances of one run (topic `run:<key>`); returns a function that unsubscribes.
 * @param {string} topic
 */
export function watchTopic(topic) {
  topics.set(topic, (topics.get(topic) || 0) + 1);
  if (topics.get(topic) === 1) reconnectSoon();
  return () => {
    const left = (topics.get(topic) ?? 1) - 1;
    if (left) topics.set(topic, left);
    else {
      topics.delete(topic);
      reconnectSoon();
    }
  };
}
