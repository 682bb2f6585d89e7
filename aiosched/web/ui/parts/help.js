// The list of keyboard shortcuts.
import { html } from "../lib/html.js";
import { shortcuts } from "../lib/keys.js";
import { Dialog } from "./dialog.js";

/** @param {{ onClose: () => void }} props */
export const Help = ({ onClose }) => html`
  <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <table class="table">
      <tbody>
        ${shortcuts.value.map(([keys, label]) => html`
          <tr>
            <td>
              <kbd>${keys}</kbd>
            </td>
            <td>${label}</td>
          </tr>
        `)}
      </tbody>
    </table>
  <//>
`;
