// Form fields shared by users and tokens.
import { html } from "../../lib/html.js";

/** @type {Choice[]} */
export const ROLES = [
  ["viewer", "viewer: read only"],
  ["operator", "operator: can also run actions"],
  ["editor", "editor: also manages pools, variables and connections"],
  ["admin", "admin: also manages users and settings"],
];

/** For everything there is, of users. @type {Choice[]} */
export const USER_ROLES = [...ROLES, ["none", "none: only what is granted for some DAGs"]];

/** For some DAGs. @type {Choice[]} */
export const GRANTED_ROLES = ROLES;

/** @param {{ value: string, onChange: (role: string) => void, roles?: Choice[] }} props */
export const RoleField = ({ value, onChange, roles = ROLES }) => html`
  <div class="field">
    <label for="u-role">Role</label>
    <select class="input" id="u-role" value=${value} onChange=${(e) => onChange(e.target.value)}>
      ${roles.map(([name, words]) => html`
        <option value=${name}>${words}</option>
      `)}
    </select>
  </div>
`;

/** @param {{ value: string, onInput: (text: string) => void }} props */
export const PasswordField = ({ value, onInput }) => html`
  <div class="field">
    <label for="u-password">Password</label>
    <input
      class="input"
      id="u-password"
      type="password"
      minlength="8"
      required
      autocomplete="new-password"
      value=${value}
      onInput=${(e) => onInput(e.target.value)}
    />
    <span class="help">At least 8 characters.</span>
  </div>
`;
