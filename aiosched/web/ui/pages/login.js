// The login: shown in place of everything else while the server wants one.
import { html, useState } from "../lib/html.js";
import { loginNeeded, me, post } from "../lib/api.js";
import { Notice } from "../parts/basics.js";

export function Login() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    const { name, password } = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    try {
      me.value = await post("login", { name, password });
      loginNeeded.value = false;
    } catch (problem) { setError(problem); }
    setBusy(false);
  };
  return html`<main class="login"><form class="card" onSubmit=${send}>
    <h1><img src="ui/icon.svg" alt="" width="28" height="28" /> aiosched</h1>
    <div class="field"><label for="name">Name</label><input class="input" id="name" name="name" autocomplete="username" required autofocus /></div>
    <div class="field"><label for="password">Password</label><input class="input" id="password" name="password" type="password" autocomplete="current-password" required /></div>
    ${error && html`<${Notice} kind="danger">${error.message}<//>`}
    <button class="button primary" disabled=${busy}>${busy ? "…" : "Log in"}</button>
  </form></main>`;
}
