// Variables and connections. Their values are write-only: they are never shown.
import { html } from "../lib/html.js";
import { query } from "../lib/router.js";
import { Page, Tabs } from "../parts/basics.js";
import { Connections } from "./secrets/connections.js";
import { Variables } from "./secrets/variables.js";

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
        ]}
      />
      ${tab === "variables" ? html`<${Variables} key="v" />` : html`<${Connections} key="c" />`}
    <//>
  `;
}
