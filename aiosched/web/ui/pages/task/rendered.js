// The rendered template fields of a try, which are stored when it begins, or rendered now on request.
import { html, useState } from "../../lib/html.js";
import { may, post } from "../../lib/api.js";
import { useResource } from "../../lib/resources.js";
import { query } from "../../lib/router.js";
import { Card, Empty, Notice, Shown } from "../../parts/basics.js";
import { Text, pretty } from "../../parts/facts.js";

/** @param {{ base: string, params: InstanceParams, run: number }} props */
export function Rendered({ base, params, run }) {
  const { now, error, render } = useRendering(base, params);
  /** @type {Resource<Api["Rendered"]>} */
  const stored = useResource(
    `${base}/rendered`,
    { ...params, try_number: query.value.try },
    { kinds: ["task"], concerns: (p) => p.run === run },
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
        <${Shown} of=${stored}>${({ fields }) => html`<${Fields} fields=${fields} />`}<//>
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

/** @param {{ fields: Record<string, any> | null }} props */
function Fields({ fields }) {
  if (fields === null)
    return html`
      <${Empty} title="Nothing is stored">
        The fields of tasks with templates are stored when a try begins, and kept for the newest runs. The
        templates themselves are shown under Details.
      <//>
    `;
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
