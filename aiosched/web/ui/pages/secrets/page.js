// Variables and connections. Their values are write-only: they are never shown.
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
      lead="Values are stored encrypted and never shown, neither here nor in the API."
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
