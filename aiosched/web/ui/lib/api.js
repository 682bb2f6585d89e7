// Asking the REST API: JSON in and out, problems as errors with a code, and who we are.
import { signal } from "./html.js";

const root = new URL("api/v1/", document.baseURI);

/** An answer that is an error: `code` is stable, `message` is for people. */
export class Problem extends Error {
  /**
   * @param {Partial<Api["ProblemDetails"]>} body
   * @param {number} status of HTTP; 0: there is no answer
   */
  constructor(body, status) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.code = body.code || "unknown";
    this.status = status;
    this.fields = body.fields || [];
  }
}

/** Set when the server wants a login: the shell shows it instead of the page. */
export const loginNeeded = signal(false);

/**
 * Who we are; null until it is known.
 * @type {Signal<Api["Me"] | any>}
 */
export const me = signal(null);

/** Why it is not known who we are, where that is no missing login. */
export const notKnown = signal(null);

const RANK = { viewer: 1, operator: 2, admin: 3 };

/**
 * Whether we may do what a role may.
 * @param {string} role
 */
export const may = (role) => RANK[me.value?.role] >= RANK[role];

/** Ask who we are; afterwards `me`, `loginNeeded` or `notKnown` is set. */
export async function whoAmI() {
  notKnown.value = null;
  try {
    me.value = await get("me");
    loginNeeded.value = false;
  } catch (problem) {
    if (problem.status !== 401) notKnown.value = problem;
  }
}

/**
 * @param {string} path below api/v1
 * @param {Record<string, any>} [params] of the query; a list stands for each of its values, what is empty is left out
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
 * The address of a resource for links and downloads.
 * @param {string} path
 * @param {object} [params]
 */
export const apiUrl = (path, params) => address(path, params).href;

/**
 * Ask the API; raises a Problem. `raw`: the answer as it is, not what its JSON says.
 * @typedef {{ params?: object, body?: object, headers?: object, raw?: boolean, signal?: AbortSignal }} Options
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, { params, body, headers, raw = false, signal: abort } = {}) {
  let answer;
  try {
    answer = await fetch(address(path, params), {
      method,
      signal: abort,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(me.value?.csrf && { "X-CSRF-Token": me.value.csrf }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(
      { code: "unreachable", detail: "The server cannot be reached. Is `aiosched serve` still running?" },
      0,
    );
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({})); // what stands between us and the server may answer with a page
    if (answer.status === 401 && path !== "login") loginNeeded.value = true;
    throw new Problem(told, answer.status);
  }
  if (raw) return answer;
  return answer.status === 204
    ? null
    : { ...(await answer.json()), ...(answer.status === 202 && { accepted: true }) };
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
 * A path of the API from parts, each encoded.
 * @param {(string | number)[]} parts
 */
export const at = (...parts) => parts.map(encodeURIComponent).join("/");
