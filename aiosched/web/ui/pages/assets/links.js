// Shared by the asset pages: the patches they subscribe to, and links to DAGs.
import { html } from "../../lib/html.js";
import { path } from "../../lib/router.js";
import { Link } from "../../parts/basics.js";

export const KINDS = { kinds: ["asset", "dag", "run"] };

/** The group of an asset, with a link to all of it. @param {{ of: Api["AssetResource"] }} props */
export const Group = ({ of: { group } }) =>
  group === "asset" ? html`
    <span class="faint">–</span>
  ` : html`
    <${Link} class="clip" to=${`/assets?${new URLSearchParams({ group })}`} title=${`All of ${group}`}>
      ${group}
    <//>
  `;

/** @param {string[]} ids */
export const dags = (ids) =>
  ids.length ? html`
    <span class="row">
      ${ids.map((id) => html`
        <${Link} to=${path("dags", id)}>${id}<//>
      `)}
    </span>
  ` : html`
    <span class="faint">–</span>
  `;
