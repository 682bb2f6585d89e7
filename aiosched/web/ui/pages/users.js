// People who may log in, and tokens of programs. A token is shown once, when it is made.
import { html } from "../lib/html.js";
import { may, me } from "../lib/api.js";
import { query } from "../lib/router.js";
import { Notice, Page, Tabs } from "../parts/basics.js";
import { People } from "./users/people.js";
import { Tokens } from "./users/tokens.js";

export function Users() {
  const people = may("admin");
  const tab = query.value.tab || (people ? "users" : "tokens");
  return html`
    <${Page} title="Users and tokens">
      ${me.value.login === "none" && html`
        <${Notice}>
          This server needs no login: everybody who reaches it is an administrator. Set${" "}
          <code>web.auth = "password"</code> to change that.
        <//>
      `}
      <${Tabs}
        tabs=${
          people
            ? [
                ["users", "Users"],
                ["tokens", "Tokens"],
              ]
            : [["tokens", "Tokens"]]
        }
      />
      ${tab === "users" && people ? html`<${People} />` : html`<${Tokens} />`}
    <//>
  `;
}
