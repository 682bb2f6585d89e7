// The login page, shown instead of everything else while a login is required, also when a session has ended.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { enter, get, me, post } from "../lib/api.js";
import { titled } from "../lib/instance.js";
import { query, setQuery } from "../lib/router.js";
import { Notice } from "../parts/basics.js";
import { Instance } from "../parts/instance.js";

/** @type {Record<string, string>} */
const REFUSED = {
  "not-invited":
    "Your login succeeded, but you have no role here or your account is disabled: ask an administrator.",
  refused: "Your user name already belongs to another account here: ask an administrator.",
  "used-link": "This login link was already used, or is older than a day. Get a new one: aiosched web address",
  "login-expired": "The login took too long or was started in another window: log in again.",
};

// Whether the server has sent this page in place of what was opened, because nobody was logged in.
export const isInPlace = document.getElementById("app")?.dataset.status === "401";

export function Login() {
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  const [method, setMethod] = useState("");
  useEffect(() => {
    document.title = titled("Log in");
    get("login").then((found) => setMethod(found.login), setError);
  }, []);
  const { refused } = query.value;
  return html`
    <main class="login">
      <div class="card">
        <h1>
          <img src="ui/icon.svg" alt="" width="32" height="32" /> aiosched <${Instance} />
        </h1>
        ${isInPlace ? html`
          <p role="status">
            <b>You are logged out.</b> Log in, and what you have opened is opened again.
          </p>
        ` : me.value ? html`
          <p role="status">
            <b>You are logged out.</b> Log in, and you are back on the same page.
          </p>
        ` : html`
          <p class="soft">Log in to see what is running, what is waiting, and why.</p>
        `}
        ${refused && html`
          <${Notice} kind="danger">
            ${REFUSED[refused] ?? "The login with your organisation failed: try again, or ask an administrator."}
          <//>
        `}
        ${method === "oidc" && html`
          <${Organisation} back=${refused ? "" : location.href.slice(document.baseURI.length)} />
        `}
        ${method === "token" && html`<${ByToken} error=${error} setError=${setError} />`}
        ${(method === "oidc" || method === "password") && html`<${ByPassword} error=${error} setError=${setError} />`}
        ${!method && error && html`<${Notice} kind="danger">${error.message}<//>`}
      </div>
    </main>
  `;
}

/**
 * Send what the form has, and go on as the user of the answer.
 * @param {(problem: Problem | null) => void} setError
 * @param {() => Promise<Api["CurrentUser"]>} ask
 */
async function begin(setError, ask) {
  setError(null);
  try {
    enter(await ask());
    setQuery({ refused: null });
  } catch (problem) {
    setError(problem);
  }
}

/** @typedef {{ error: Problem | null, setError: (problem: Problem | null) => void }} FormProps */

/** @param {FormProps} props */
function ByPassword({ error, setError }) {
  const [busy, setBusy] = useState(false);
  /** @type {Ref<HTMLInputElement | null>} */
  const password = useRef(null);
  useEffect(() => {
    if (error) password.current?.select();
  }, [error]);
  /** @param {Event & { target: HTMLFormElement }} event */
  const send = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    await begin(setError, () => post("login", { name: fields.name, password: fields.password }));
    setBusy(false);
  };
  return html`
    <form class="stack" onSubmit=${send} aria-label="Log in">
      <${Fields} password=${password} wrong=${Boolean(error)} />
      ${error && html`
        <div id="login-error">
          <${Notice} kind="danger">${error.message}<//>
        </div>
      `}
      <button class="button primary" disabled=${busy}>
        ${busy ? "Logging in …" : "Log in"}
      </button>
      <p class="faint">
        No account or forgot your password? An administrator can run <code>aiosched users create NAME</code> or${" "}
        <code>aiosched users password NAME</code>.
      </p>
    </form>
  `;
}

/** @param {FormProps} props */
function ByToken({ error, setError }) {
  /** @param {Event & { target: HTMLFormElement }} event */
  const send = (event) => {
    event.preventDefault();
    const typed = String(new FormData(event.target).get("token")).trim();
    const token = typed.split("token=").pop(); // a whole address, too
    begin(setError, () => post("login/link", { token }));
  };
  return html`
    <form class="stack" onSubmit=${send} aria-label="Log in">
      <p>
        Open the address that <code>aiosched serve</code> has printed on its terminal, or run${" "}
        <code>aiosched web address</code> for a new one. Each logs one browser in.
      </p>
      <div class="field">
        <label for="token">Login link or its token</label>
        <input
          class="input"
          id="token"
          name="token"
          autocomplete="off"
          spellcheck="false"
          required
          autofocus
          aria-invalid=${error ? "true" : undefined}
          aria-describedby=${error ? "login-error" : undefined}
        />
      </div>
      ${error && html`
        <div id="login-error">
          <${Notice} kind="danger">${error.message}<//>
        </div>
      `}
      <button class="button primary">Log in</button>
    </form>
  `;
}

/**
 * The login with the organisation; `back` is the address to return to.
 * @param {{ back: string }} props
 */
function Organisation({ back }) {
  return html`
    <a class="button primary" data-external href=${`api/v1/login/oidc?back=${encodeURIComponent(back)}`}>
      Log in with your organisation
    </a>
    <p class="faint">Or log in with a password:</p>
  `;
}

/**
 * `password` is a ref to the password field; `wrong`: the last attempt was rejected.
 * @param {{ password: Ref<HTMLInputElement | null>, wrong: boolean }} props
 */
function Fields({ password, wrong }) {
  return html`
    <div class="field">
      <label for="name">Name</label>
      <input
        class="input"
        id="name"
        name="name"
        autocomplete="username"
        autocapitalize="none"
        spellcheck="false"
        required
        autofocus
      />
    </div>
    <div class="field">
      <label for="password">Password</label>
      <input
        class="input"
        id="password"
        name="password"
        type="password"
        ref=${password}
        autocomplete="current-password"
        required
        aria-invalid=${wrong ? "true" : undefined}
        aria-describedby=${wrong ? "login-error" : undefined}
      />
    </div>
  `;
}
