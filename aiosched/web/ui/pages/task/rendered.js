// The rendered template fields of a try, which are stored when it begins, or rendered now on request.
import { html, useState } from "../../lib/html.js";
import { may, post } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { query } from "../../lib/router.js";
import { Card, Empty, Notice, Shown } from "../../parts/basics.js";
import { Text, pretty } from "../../parts/facts.js";

/** @param {{ task: Api["TaskDetails"], base: string, params: InstanceParams }} props */
export function Rendered({ task, base, params }) {
  const { now, error, render } = useRendering(base, params);
  /** @type {Resource<Api["Rendered"]>} */
  const stored = useResource(
    `${base}/rendered`,
    { ...params, try_number: query.value.try },
    { kinds: ["task"], concerns: (p) => p.run === task.run_key },
  );
  return html`
    <${Card}
      title=${now ? "Rendered now, as the next try would see them" : "Rendered fields"}
      actions=${
        may("operator") && html`
          <button class="button small" onClick=${render}>
            Render now
          </button>
        `
      }
    >
      ${error && html`<${Notice} kind="danger">${error}<//>`}
      ${now ? html`
        <${Fields} fields=${now} />
      ` : html`
        <${Shown} of=${stored}>
          ${({ fields }) => html`
            <${Fields} fields=${fields} templates=${task.template_fields} />
            ${fields === null && task.map_index >= 0 && may("operator") && html`
              <button class="button" onClick=${render}>
                Show the arguments of this instance
              </button>
            `}
          `}
        <//>
      `}
    <//>
  `;
}

/**
 * What a scheduler has rendered on request, and the function that asks for it.
 * @param {string} base
 * @param {InstanceParams} params
 */
function useRendering(base, params) {
  const [now, setNow] = useState(/** @type {Record<string, any> | null} */ (null));
  const [error, setError] = useState("");
  const render = async () => {
    setError("");
    try {
      const answer = await post(`${base}/rendered`, {}, { params });
      if (answer.accepted)
        setError("It takes longer: the request waits for a scheduler. Try again in a moment.");
      else setNow(answer.fields);
    } catch (problem) {
      setError(problem.message);
    }
  };
  return { now, error, render };
}

/**
 * Rendered fields; the templates themselves if nothing is stored.
 * @param {{ fields: Record<string, any> | null, templates?: Record<string, any> }} props
 */
function Fields({ fields, templates = {} }) {
  if (fields === null && !Object.keys(templates).length)
    return html`<${Empty} title="This task has no template fields" />`;
  if (fields === null)
    return html`
      <div class="stack">
        <${Notice}>
          No rendered values are stored for this try. They are stored when a try begins, and kept for the newest
          runs. These are the templates:
        <//>
        <${Values} fields=${templates} />
      </div>
    `;
  return html`<${Values} fields=${fields} />`;
}

/** @param {{ fields: Record<string, any> }} props */
function Values({ fields }) {
  return html`
    <div class="stack">
      ${Object.entries(fields).map(([name, value]) => html`
        <div class="stack tight" key=${name}>
          <b class="mono">${name}</b>
          <${Text} text=${typeof value === "string" ? value : pretty(value)} />
        </div>
      `)}
    </div>
  `;
}
