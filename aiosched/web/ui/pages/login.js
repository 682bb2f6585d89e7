// The login: shown in place of everything else while the server wants one.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { get, loginNeeded, me, post } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { Notice } from "../parts/basics.js";

const REFUSED = {
  "not-invited":
    "Your organisation knows you, but here you have no role, or you may no longer log in: ask an administrator.",
  "login-expired": "That login took too long, or was started in another window: log in again.",
};

export function Login() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const password = useRef(null);
  const [method, setMethod] = useState("password");
  useEffect(() => {
    document.title = "Log in · aiosched";
    get("login").then((found) => setMethod(found.login), setError);
  }, []);
  const { refused } = query.value;
  const back = refused ? "" : location.href.slice(document.baseURI.length);
  const send = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    setError(null);
    try {
      me.value = await post("login", { name: given.name, password: given.password });
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
        <p class="soft">Log in to see what runs, what waits, and why.</p>
        ${refused && html`
          <${Notice} kind="danger">
            ${REFUSED[refused] ??
              "The login with your organisation did not work: try again, or ask an administrator."}
          <//>
        `}
        ${method === "oidc" && html`
          <a
            class="button primary"
            data-external
            href=${`api/v1/login/oidc?back=${encodeURIComponent(back)}`}
          >
            Log in with your organisation
          </a>
          <p class="faint">Or with a password of this server:</p>
        `}
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
          No account, or the password is lost? An administrator makes one with${" "}
          <code>aiosched users create NAME</code> or <code>aiosched users password NAME</code>.
        </p>
      </form>
    </main>
  `;
}

/** `password` gets the field of the password; `wrong`: the last try was refused. */
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
