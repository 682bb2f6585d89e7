// The login: shown in place of everything else while the server wants one.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { get, loginNeeded, me, post } from "../lib/api.js";
import { Notice } from "../parts/basics.js";

export function Login() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const password = useRef(null);
  const [method, setMethod] = useState("password");
  useEffect(() => { document.title = "Log in · aiosched"; get("login").then((found) => setMethod(found.login), () => {}); }, []);
  const back = location.href.slice(document.baseURI.length);
  const send = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    setBusy(true); setError(null);
    try {
      me.value = await post("login", { name: given.name, password: given.password });
      loginNeeded.value = false;
    } catch (problem) { setError(problem); password.current?.select(); }
    setBusy(false);
  };
  return html`<main class="login"><form class="card" onSubmit=${send} aria-labelledby="login-title">
    <h1 id="login-title"><img src="ui/icon.svg" alt="" width="32" height="32" /> aiosched</h1>
    <p class="soft">Log in to see what runs, what waits, and why.</p>
    ${method === "oidc" && html`<a class="button primary" href=${`api/v1/login/oidc?back=${encodeURIComponent(back)}`}>Log in with your organisation</a><p class="faint">Or with a password of this server:</p>`}
    <div class="field"><label for="name">Name</label><input class="input" id="name" name="name" autocomplete="username" autocapitalize="none" spellcheck="false" required autofocus /></div>
    <div class="field"><label for="password">Password</label><input class="input" id="password" name="password" type="password" ref=${password} autocomplete="current-password" required aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? "login-error" : undefined} /></div>
    ${error && html`<div id="login-error"><${Notice} kind="danger">${error.message}<//></div>`}
    <button class="button primary" disabled=${busy}>${busy ? "Logging in …" : "Log in"}</button>
    <p class="faint">No account, or the password is lost? An administrator makes one with <code>aiosched users create NAME</code> or <code>aiosched users password NAME</code>.</p>
  </form></main>`;
}
