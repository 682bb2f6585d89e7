// Users, API tokens for programs, and sessions in browsers.
import { html } from "../../lib/html.js";
import { mayEverywhere, me } from "../../lib/api.js";
import { query } from "../../lib/router.js";
import { Notice, Page, Tabs } from "../../parts/basics.js";
import { Grants } from "./grants.js";
import { Sessions } from "./sessions.js";
import { UserList } from "./people.js";
import { Teams } from "./teams.js";
import { Tokens } from "./tokens.js";

const OF_ADMINS = [
  ["users", "Users"],
  ["grants", "Grants"],
  ["teams", "Teams"],
];
const OWN = [
  ["tokens", "Tokens"],
  ["sessions", "Sessions"],
];

export function Users() {
  const isAdmin = mayEverywhere("admin");
  const tab = query.value.tab || (isAdmin ? "users" : "tokens");
  return html`
    <${Page} title="Users and tokens">
      ${me.value?.login === "none" && html`
        <${Notice} kind="warn">
          This server requires no login: everyone who can reach it is an administrator. Set${" "}
          <code>web.auth = "password"</code> to change that.
        <//>
      `}
      <${Tabs} tabs=${isAdmin ? [...OF_ADMINS, ...OWN] : OWN} />
      ${tab === "users" && isAdmin && html`<${UserList} />`}
      ${tab === "grants" && isAdmin && html`<${Grants} />`}
      ${tab === "teams" && isAdmin && html`<${Teams} />`}
      ${tab === "tokens" && html`<${Tokens} />`}
      ${tab === "sessions" && html`<${Sessions} />`}
    <//>
  `;
}
