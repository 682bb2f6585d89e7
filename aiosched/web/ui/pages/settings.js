// Settings of the web server process, by section; secrets are hidden.
import { classes, html } from "../lib/html.js";
import { may } from "../lib/api.js";
import { useResource } from "../lib/resources.js";
import { query } from "../lib/router.js";
import { Card, Empty, Page, Shown, Tag } from "../parts/basics.js";
import { FilterField } from "../parts/facts.js";

const shown = (value) =>
  value === null || value === undefined || value === "" ? html`
    <span class="faint">not set</span>
  ` : html`
    <code>${typeof value === "string" ? value : JSON.stringify(value)}</code>
  `;

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function Settings() {
  const found = useResource(may("admin") ? "settings" : null);
  const wanted = (query.value.search || "").toLowerCase();
  if (!may("admin"))
    return html`
      <${Page} title="Settings">
        <${Card}>
          <${Empty} title="Administrators only">
            Settings reveal details of the deployment and require the admin role.
          <//>
        <//>
      <//>
    `;
  return html`
    <${Page}
      title="Settings"
      lead="As used by the web server process; schedulers on other machines may use different settings."
      actions=${html`<${FilterField} name="search" words="Search settings" />`}
    >
      <${Shown} of=${found}>
        ${({ items }) => {
          const hits = items.filter((one) => `${one.key} ${one.description}`.toLowerCase().includes(wanted));
          const sections = Object.entries(
            hits.reduce((all, one) => {
              (all[one.key.split(".")[0]] ??= []).push(one);
              return all;
            }, {}),
          );
          if (!sections.length)
            return html`
              <${Card}>
                <${Empty} title="No matching settings" />
              <//>
            `;
          return html`
            <div class="stack">
              ${sections.map(([name, list]) => html`
                <${Card} key=${name} title=${name} plain>
                  <dl class="settings">
                    ${list.map((one) => html`
                      <div class=${classes("setting", !same(one.value, one.default) && "changed")}>
                        <dt>
                          <code>${one.key}</code>
                          ${!same(one.value, one.default) && html`
                            ${" "}
                            <${Tag} kind="warn">set<//>
                          `}
                          <p class="faint">${one.description}</p>
                        </dt>
                        <dd>
                          ${shown(one.value)}
                          ${!same(one.value, one.default) && html`<p class="faint">default ${shown(one.default)}</p>`}
                        </dd>
                      </div>
                    `)}
                  </dl>
                <//>
              `)}
            </div>
          `;
        }}
      <//>
    <//>
  `;
}
