// The name of this installation, in its colour.
import { html } from "../lib/html.js";
import { instanceName } from "../lib/instance.js";

export const Instance = () =>
  instanceName && html`
    <span class="instance" title=${instanceName}>
      ${instanceName}
    </span>
  `;
