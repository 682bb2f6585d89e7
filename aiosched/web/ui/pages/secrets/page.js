// Variables and connections. Secrets are write-only: they are never shown.
import { html } from "../../lib/html.js";
import { may } from "../../lib/api.js";
import { query } from "../../lib/router.js";
import { Page, Tabs } from "../../parts/basics.js";
import { Connections } from "./connections.js";
import { Sources } from "./sources.js";
import { Variables } from "./variables.js";

export function Secrets() {
  const tab = query.value.tab || "variables";
  return html`
    <${Page}
      title="Variables and connections"
      lead="Stored encrypted. Secrets and connections are never shown; other values only to editors."
    >
      <${Tabs}
        tabs=${[
          ["variables", "Variables"],
          ["connections", "Connections"],
          ...(may("admin") ? [["sources", "Sources"]] : []),
        ]}
      />
      ${tab === "variables" && html`<${Variables} key="v" />`}
      ${tab === "connections" && html`<${Connections} key="c" />`}
      ${tab === "sources" && html`<${Sources} key="s" />`}
    <//>
  `;
}
