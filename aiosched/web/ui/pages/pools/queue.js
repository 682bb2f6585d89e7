// The task instances that hold slots of a pool, and those waiting for them.
import { html } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { taskName, taskPath } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { duration } from "../../lib/time.js";
import { Failure, Link, Loading } from "../../parts/basics.js";
import { LIVE } from "./words.js";

/** @param {{ name: string }} props */
export function Queue({ name }) {
  /** @type {Resource<Api["Queue"]>} */
  const found = useResource(`${at("pools", name)}/queue`, {}, LIVE);
  if (found.error.value) return html`<${Failure} error=${found.error.value} retry=${found.reload} />`;
  if (!found.data.value) return html`<${Loading} lines=${2} />`;
  const { holders, items, next_cursor } = found.data.value;
  /**
   * @param {string} title
   * @param {Api["SlotUser"][]} list
   * @param {string} none
   */
  const List = (title, list, none) => html`
    <div>
      <h3>${title}</h3>
      ${list.length ? html`
        <ol class="plain queue">
          ${list.map((one) => html`
            <li class="row apart">
              <span class="clip">
                <${Link} to=${taskPath(one)}>${taskName(one)}<//>${" "}
                <span class="faint">
                  ${one.dag_id} · ${one.run_id}
                </span>
              </span>
              <span class="soft tabular nowrap">
                ${one.slots > 1 ? `${one.slots} slots, ` : ""}
                ${one.seconds !== null && one.seconds !== undefined ? duration(one.seconds) : ""}
              </span>
            </li>
          `)}
        </ol>
      ` : html`
        <p class="faint">${none}</p>
      `}
    </div>
  `;
  return html`
    <div class="columns">
      ${List("Holding slots", holders, "No task holds a slot.")}
      ${List(`Waiting, in order${next_cursor ? ` (first ${items.length})` : ""}`, items, "No task is waiting.")}
    </div>
  `;
}
