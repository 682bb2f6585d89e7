// The XComs of a task instance.
import { html, useState } from "../../lib/html.js";
import { apiUrl, get } from "../../lib/api.js";
import { bytes } from "../../lib/figures.js";
import { readable, received } from "../../lib/json.js";
import { useList } from "../../lib/resources.js";
import { Card, Empty, Failure, Loading, When } from "../../parts/basics.js";
import { toast } from "../../parts/dialog.js";
import { Text } from "../../parts/facts.js";
import { Json } from "../../parts/json.js";

/** @param {{ base: string, params: InstanceParams }} props */
export function XComs({ base, params }) {
  /** @type {List<Api["XCom"]>} */
  const list = useList(`${base}/xcom`, params, { kinds: ["task"], limit: 50 });
  if (list.error.value)
    return html`
      <${Card}>
        <${Failure} error=${list.error.value} retry=${list.reload} />
      <//>
    `;
  if (!list.items.value.length)
    return html`
      <${Card}>
        ${list.loading.value ? html`
          <${Loading} />
        ` : html`
          <${Empty} title="No XComs">Values that the task returns or pushes appear here.<//>
        `}
      <//>
    `;
  return html`
    <div class="stack">
      ${list.items.value.map((one) => html`
        <${XCom} key=${one.key} one=${one} base=${base} params=${params} />
      `)}
      ${list.more.value && html`
        <button class="button" onClick=${() => list.next()}>
          Show more
        </button>
      `}
    </div>
  `;
}

/** @param {{ one: Api["XCom"], base: string, params: InstanceParams }} props */
function XCom({ one, base, params }) {
  const [full, setFull] = useState(/** @type {string | null} */ (null));
  const read = async () => {
    try {
      setFull((await get(`${base}/xcom/${encodeURIComponent(one.key)}`, params)).value);
    } catch (error) {
      toast(error.message, "danger");
    }
  };
  const value = full ?? one.value;
  let shown;
  let cut = false;
  try {
    shown = readable(received(value));
  } catch {
    cut = full === null;
  }
  return html`
    <${Card}
      title=${html`<code>${one.key}</code>`}
      actions=${
        html`
          <span class="faint">
            ${bytes(one.size)} · <${When} at=${one.created_at} />
          </span>
          ${cut && !one.url && html`
            <button class="button small" onClick=${read}>
              Show all
            </button>
          `}
          ${one.url && html`
            <a
              class="button small"
              href=${apiUrl(`${base}/xcom/${encodeURIComponent(one.key)}/content`, params)}
              download=${`${one.key}.json`}
              data-external
            >
              Download
            </a>
          `}
        `
      }
    >
      ${one.url && html`
        <p class="faint">
          In remote storage, <code>${one.url}</code>. It begins:
        </p>
      `}
      ${shown === undefined ? html`<${Text} text=${value} />` : html`<${Json} value=${shown} />`}
    <//>
  `;
}
