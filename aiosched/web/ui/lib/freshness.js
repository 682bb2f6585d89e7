// One source of truth about the page's data: whether it is current, and if not, since when and why.
// The server sends its status every 1.5 s on the event stream (live.js); requests report how they fared (api.js).
import { computed, signal } from "./html.js";

const ROUGHLY = 5000; // milliseconds by which clocks may differ until a status is heard
const SILENCE = 4000; // milliseconds without a status, or without an answer, before it is reported

/**
 * Why data may be old ("server", "database", "slow", "denied", "replica"), why nothing happens ("schedulers"), or what
 * may become wrong ("machines").
 * @typedef {{ kind: "server" | "database" | "slow" | "denied" | "schedulers" | "machines" | "replica", since: number,
 *   detail?: string, fleet?: "none" | "stalled" }} Trouble
 * @typedef {{ at: string, database: { since: string, detail: string } | null,
 *   schedulers: { trouble: "none" | "stalled", since: string } | null,
 *   machines?: { texts: string[], since: string }, replica?: { behind: number } }} Status
 * @typedef {{ live: boolean, readAt: number | null }} Reading
 */

/** @type {Signal<Status | null>} */
const status = signal(null);
/** @type {Signal<{ problem: Problem, since: number } | null>} */
const refused = signal(null); // the last request was not answered, for no fault of its own
/** @type {Signal<{ problem: Problem, since: number } | null>} */
const denied = signal(null); // the user may not read the stream
/** @type {Signal<number | null>} */
const waitingSince = signal(null); // for the oldest answer that takes long
const lost = signal(false);

let heardAt = Date.now(); // by this machine's clock
let serverAhead = 0; // milliseconds
let currentAt = 0; // when all was well last, by the server's clock
/** @type {Set<{ at: number }>} */
const pending = new Set();
/** @type {Set<Reading>} */
const readings = new Set();

/** Now by the server's clock: that of this machine may be wrong. */
export const serverNow = () => Date.now() + serverAhead;

/**
 * An answer has the server's time, in whole seconds: good enough until the first status tells it exactly.
 * @param {string | null} date
 */
export function hearDate(date) {
  const ahead = Date.parse(date ?? "") - Date.now();
  if (!status.value && Math.abs(ahead) > ROUGHLY) serverAhead = ahead;
}

/**
 * What is wrong now; null: nothing.
 * @type {ReadonlySignal<Trouble | null>}
 */
export const trouble = computed(() => {
  const told = lost.value ? null : status.value;
  if (told?.database) return { kind: "database", ...told.database, since: Date.parse(told.database.since) };
  if (refused.value?.problem.code === "database")
    return { kind: "database", since: refused.value.since, detail: refused.value.problem.message };
  if (lost.value && denied.value)
    return { kind: "denied", since: denied.value.since, detail: denied.value.problem.message };
  if (lost.value || refused.value)
    return { kind: "server", since: refused.value?.since ?? heardAt + serverAhead };
  if (waitingSince.value) return { kind: "slow", since: waitingSince.value };
  if (told?.schedulers)
    return { kind: "schedulers", since: Date.parse(told.schedulers.since), fleet: told.schedulers.trouble };
  if (told?.replica) return { kind: "replica", since: Date.parse(told.at) - 1000 * told.replica.behind };
  if (told?.machines)
    return { kind: "machines", since: Date.parse(told.machines.since), detail: told.machines.texts.join("; ") };
  return null;
});

/** Whether what the page shows may be old. */
export const isStale = computed(
  () => trouble.value && !["schedulers", "machines"].includes(trouble.value.kind),
);

/** Whether everything must be read again once this is over: changes are missed meanwhile. */
export const isCutOff = computed(() => lost.value || Boolean(status.value?.database));

/** The state of the stream of changes: "live", "connecting", "disconnected", or "database" while that is away. */
export const streamState = computed(() => {
  if (trouble.value?.kind === "database") return "database";
  if (lost.value) return "disconnected";
  return status.value ? "live" : "connecting";
});

/** Why the database cannot be asked now, as the server has told; null: it can. */
export const knownOutage = () => (lost.value ? null : (status.value?.database?.detail ?? null));

/**
 * The server has sent its status.
 * @param {Status} told
 */
export function hear(told) {
  heardAt = Date.now();
  serverAhead = Date.parse(told.at) - heardAt;
  if (!told.database) {
    currentAt = Date.parse(told.at);
    refused.value = null;
  }
  status.value = told;
  lost.value = false;
}

/**
 * The server has refused the stream for good, or (null) has not: it is only away.
 * @param {Problem | null} problem
 */
export function refuse(problem) {
  denied.value = problem && { problem, since: denied.value?.since ?? serverNow() };
  if (problem) lost.value = true;
}

/**
 * The page listens to the stream, or does not, since it is in the background: then it is cut off until it does.
 * @param {boolean} does
 */
export function listen(does) {
  heardAt = Date.now();
  lost.value = !does;
  denied.value = null;
}

/** A request begins; call what this returns with its problem, null for an answer. */
export function asking() {
  const one = { at: serverNow() };
  pending.add(one);
  return (/** @type {Problem | null} */ problem) => {
    pending.delete(one);
    look();
    if (!problem) refused.value = null;
    else if (problem.status === 0 || problem.code === "database")
      refused.value ??= { problem, since: serverNow() };
  };
}

/**
 * Something that the page shows; `live`: changes of it are pushed.
 * @param {boolean} live
 */
export function reading(live) {
  /** @type {Reading} */
  const one = { live, readAt: null };
  readings.add(one);
  return { done: () => (one.readAt = serverNow()), gone: () => readings.delete(one) };
}

/** When the oldest of what the page shows was current; null: it shows nothing. */
export function dataFrom() {
  const times = [...readings]
    .filter(({ readAt }) => readAt !== null)
    .map(({ live, readAt }) => (live ? Math.max(currentAt, Number(readAt)) : Number(readAt)));
  return times.length ? Math.min(...times) : null;
}

function look() {
  const oldest = Math.min(...[...pending].map(({ at }) => at));
  waitingSince.value = serverNow() - oldest > SILENCE ? oldest : null;
  if (Date.now() - heardAt > SILENCE) lost.value = true;
}
setInterval(look, 500);
