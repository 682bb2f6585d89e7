// Runs of all DAGs.
import { html } from "../lib/html.js";
import { Page } from "../parts/basics.js";
import { RunList } from "../parts/lists/run_list.js";
import { ViewTabs } from "../parts/lists/tabs.js";

export const Runs = () => html`
  <${Page} title="Runs">
    <${ViewTabs} page="runs" />
    <${RunList} />
  <//>
`;
