// REST API client: JSON requests and responses, problems as errors with a code, and the current user.
import { asking, hearDate, knownOutage } from "./freshness.js";
import { signal } from "./html.js";
import { received } from "./json.js";

const LONGEST = 60_000; // milliseconds that an answer may take
const RETRY = 3000; // milliseconds

const root = new URL("api/v1/", document.baseURI);

/** An error response: `code` is stable, `message` is human-readable. */
export class Problem extends Error {
  /**
   * @param {Partial<Api["ProblemDetails"]>} body
   * @param {number} status HTTP status; 0 if there was no response
   */
  constructor(body, status) {
    super(body.detail || body.title || `The server returned status ${status}.`);
    this.code = body.code || "unknown";
    this.status = status;
    this.fields = body.fields || [];
  }

  /** Whether the same request may succeed later: no answer, or one about a server or database that is away. */
  get isPassing() {
    return [0, 502, 503, 504].includes(this.status);
  }
}

/** Set when the server requires a login: the shell then shows the login page. */
export const loginNeeded = signal(false);

/**
 * The current user; null until loaded.
 * @type {Signal<Api["CurrentUser"] | null>}
 */
export const me = signal(null);

/**
 * Why the current user could not be loaded, unless a login is needed.
 * @type {Signal<Problem | null>}
 */
export const meError = signal(null);

/** @type {Record<string, number>} */
const RANK = { viewer: 1, operator: 2, editor: 3, admin: 4 };

/**
 * Whether the current user has at least this role, if only for some DAGs: the server decides for each.
 * @param {string} role
 */
export const may = (role) => RANK[me.value?.role ?? ""] >= RANK[role];

/**
 * Whether the current user has at least this role for everything there is.
 * @param {string} role
 */
export const mayEverywhere = (role) => RANK[me.value?.everywhere ?? ""] >= RANK[role];

const tabs = new BroadcastChannel(`aiosched ${root.pathname}`); // a login or logout is that of the whole browser
tabs.onmessage = () => whoAmI();

/** Tell the other tabs that somebody has logged in or out here. */
export const tellTabs = () => tabs.postMessage("session");

/**
 * The user who has logged in here.
 * @param {Api["CurrentUser"]} user
 */
export function enter(user) {
  me.value = user;
  loginNeeded.value = false;
  tellTabs();
}

/** Load the current user; sets `me`, `loginNeeded` or `meError`. */
export async function whoAmI() {
  clearTimeout(retryTimer);
  try {
    me.value = await get("me");
    loginNeeded.value = false;
    meError.value = null;
  } catch (problem) {
    meError.value = problem.status === 401 ? null : problem;
    if (problem.isPassing) retryTimer = setTimeout(whoAmI, RETRY);
  }
}
/** @type {number | undefined} */
let retryTimer;

/**
 * Log in with the one-time token of an address; whether that succeeded.
 * @param {string} token
 */
export async function logInByLink(token) {
  try {
    await post("login/link", { token });
    tellTabs();
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} path relative to api/v1
 * @param {Record<string, any>} [params] query parameters; lists are repeated, empty values are omitted
 */
export function address(path, params) {
  const url = new URL(path.replace(/^\//, ""), root);
  for (const [name, value] of Object.entries(params || {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of [value].flat()) url.searchParams.append(name, one);
  }
  return url;
}

/**
 * The URL of a resource, for links and downloads.
 * @param {string} path
 * @param {object} [params]
 */
export const apiUrl = (path, params) => address(path, params).href;

const POSITION = "Aiosched-Position";
let position = ""; // what a replica of the database must have to answer this page; unknown until its stream has begun

/**
 * What is read from now on must not be older than this.
 * @param {string} known
 */
export function see(known) {
  if (known > position) position = known; // all have the same length
}

/**
 * Call the API; throws a Problem. `raw`: return the response itself instead of its parsed JSON.
 *
 * If the session has been replaced by a new one, as by a login in another tab, the request is sent again, but only for
 * the same user. For another user it is never answered: `me` changes, and with it the page that has asked.
 * @typedef {{ params?: object, body?: object, headers?: object, raw?: boolean, signal?: AbortSignal }} Options
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, options = {}) {
  const user = me.value;
  try {
    return await ask(method, path, options);
  } catch (problem) {
    if (problem.code !== "csrf") throw problem;
    me.value = await get("me");
    return me.value?.name === user?.name ? ask(method, path, options) : new Promise(() => {});
  }
}

/** @type {typeof call} */
async function ask(method, path, options = {}) {
  const outage = method === "GET" ? knownOutage() : null;
  if (outage) throw new Problem({ code: "database", detail: outage }, 503); // as the server would answer
  const done = method === "GET" ? asking() : () => {};
  try {
    const found = await send(method, path, options);
    done(null);
    return found;
  } catch (problem) {
    done(problem);
    throw problem;
  }
}

/**
 * Why the server refuses an address, whatever is known of it; null: it does not, or cannot be asked.
 * @param {string} path
 * @param {object} [params]
 * @returns {Promise<Problem | null>}
 */
export async function refusalOf(path, params) {
  const abort = new AbortController();
  try {
    await send("GET", path, { params, raw: true, signal: abort.signal });
    return null;
  } catch (problem) {
    return problem.isPassing ? null : problem;
  } finally {
    abort.abort(); // its answer is not read
  }
}

/** @type {typeof call} */
async function send(method, path, { params, body, headers, raw = false, signal: abort } = {}) {
  const step = path.split("/").find((part) => part === "." || part === "..");
  if (step) {
    // The browser would leave it out of the address, and so ask for something else.
    const detail = `The name '${step}' is a step in a path, so no address could name it: choose another.`;
    throw new Problem({ code: "refused", detail }, 409);
  }
  const tooLong = AbortSignal.timeout(LONGEST);
  let response;
  try {
    response = await fetch(address(path, params), {
      method,
      signal: abort ? AbortSignal.any([abort, tooLong]) : tooLong,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(me.value?.csrf && { "X-CSRF-Token": me.value.csrf }),
        ...(method === "GET" && position && { [POSITION]: position }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    hearDate(response.headers.get("date"));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const detail =
      error.name === "TimeoutError"
        ? "The server does not answer. Its log, or a smaller question, may help."
        : "The server cannot be reached. Is `aiosched serve` still running?";
    throw new Problem({ code: "unreachable", detail }, 0);
  }
  see(response.headers.get(POSITION) ?? "");
  if (!response.ok) {
    const problem = await response.json().catch(() => ({})); // a proxy in between may respond with HTML
    if (response.status === 401 && !path.startsWith("login")) loginNeeded.value = true;
    throw new Problem(problem, response.status);
  }
  if (raw) return response;
  return response.status === 204
    ? null
    : { ...received(await response.text()), ...(response.status === 202 && { accepted: true }) };
}

/** @type {(path: string, params?: object, options?: Options) => Promise<any>} */
export const get = (path, params, options) => call("GET", path, { params, ...options });

/** @type {(path: string, body?: object, options?: Options) => Promise<any>} */
export const post = (path, body = {}, options) => call("POST", path, { body, ...options });

/** @type {(path: string, body: object, options?: Options) => Promise<any>} */
export const put = (path, body, options) => call("PUT", path, { body, ...options });

/** @type {(path: string, body: object, options?: Options) => Promise<any>} */
export const patch = (path, body, options) => call("PATCH", path, { body, ...options });

/** @type {(path: string, options?: Options) => Promise<any>} */
export const remove = (path, options) => call("DELETE", path, options);

/**
 * An API path from parts, each encoded.
 * @param {(string | number)[]} parts
 */
export const at = (...parts) => parts.map(encodeURIComponent).join("/");
