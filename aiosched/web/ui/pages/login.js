// The login page, shown instead of everything else while a login is required.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { get, loginNeeded, me, post } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { Notice } from "../parts/basics.js";

/** @type {Record<string, string>} */
const REFUSED = {
  "not-invited":
    "Your login succeeded, but you have no role here or your account is disabled: ask an administrator.",
  "login-expired": "The login took too long or was started in another window: log in again.",
};

export function Login() {
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  const [busy, setBusy] = useState(false);
  /** @type {Ref<HTMLInputElement | null>} */
  const password = useRef(null);
  const [method, setMethod] = useState("password");
  useEffect(() => {
    document.title = "Log in · aiosched";
    get("login").then((found) => setMethod(found.login), setError);
  }, []);
  const { refused } = query.value;
  const back = refused ? "" : location.href.slice(document.baseURI.length);
  /** @param {Event & { target: HTMLFormElement }} event */
  const send = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    setError(null);
    try {
      me.value = await post("login", { name: fields.name, password: fields.password });
      loginNeeded.value = false;
      setQuery({ refused: null });
    } catch (problem) {
      setError(problem);
      password.current?.select();
    }
    setBusy(false);
  };
  return html`
    <main class="login">
      <form class="card" onSubmit=${send} aria-labelledby="login-title">
        <h1 id="login-title">
          <img src="ui/icon.svg" alt="" width="32" height="32" /> aiosched
        </h1>
        <p class="soft">Log in to see what is running, what is waiting, and why.</p>
        ${refused && html`
          <${Notice} kind="danger">
            ${REFUSED[refused] ?? "The login with your organisation failed: try again, or ask an administrator."}
          <//>
        `}
        ${method === "oidc" && html`<${Organisation} back=${back} />`}
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
          No account or forgot your password? An administrator can run <code>aiosched users create NAME</code>${" "}
          or <code>aiosched users password NAME</code>.
        </p>
      </form>
    </main>
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
