// The task instances that hold slots of a pool, and those waiting for them.
import { html, useState } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { runName, taskName, taskPath } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { path } from "../../lib/router.js";
import { duration } from "../../lib/time.js";
import { Failure, Link, Loading } from "../../parts/basics.js";
import { LIVE } from "./words.js";

const STEP = 100; // more that are shown by a click
const MOST = 1000; // in one answer of the API
const COUNTED = 10_000; // the API counts no further

/** @param {{ name: string }} props */
export function Queue({ name }) {
  const [limit, setLimit] = useState(STEP);
  /** @type {Resource<Api["Queue"]>} */
  const found = useResource(`${at("pools", name)}/queue`, { limit }, LIVE);
  if (found.error.value) return html`<${Failure} error=${found.error.value} retry=${found.reload} />`;
  if (!found.data.value) return html`<${Loading} lines=${2} />`;
  const { holders, items, waiting } = found.data.value;
  const more = Math.min(limit + STEP, MOST);
  return html`
    ${holders.length > 0 && html`<p>Slots held by DAG: ${byDag(holders)}</p>`}
    <div class="columns">
      <${Users} title="Holding slots" list=${holders} none="No task holds a slot." />
      <div>
        <${Users} title="Waiting, in order" list=${items} none="No task is waiting." />
        ${waiting > items.length && html`
          <p class="row">
            <span class="soft">
              and ${waiting >= COUNTED ? "at least " : ""}
              ${number(waiting - items.length)} more
            </span>
            ${more > limit && html`
              <button class="button small" onClick=${() => setLimit(more)}>
                Show more
              </button>
            `}
          </p>
        `}
      </div>
    </div>
  `;
}

/**
 * The DAGs that hold slots with their numbers, most first.
 * @param {Api["SlotUser"][]} holders
 */
function byDag(holders) {
  /** @type {Map<string, number>} */
  const slots = new Map();
  for (const { dag_id, slots: held } of holders) slots.set(dag_id, (slots.get(dag_id) ?? 0) + held);
  const sorted = [...slots].sort(([, a], [, b]) => b - a);
  return sorted.map(([dag, held], i) => html`
    ${i > 0 && ", "}
    <${Link} to=${path("dags", dag)}>${dag}<//> ${held}
  `);
}

/** @param {number} n */
const number = (n) => n.toLocaleString("en");

/** @param {{ title: string, list: Api["SlotUser"][], none: string }} props */
function Users({ title, list, none }) {
  return html`
    <div>
      <h3>${title}</h3>
      ${list.length ? html`
        <ol class="plain queue">
          ${list.map((one) => html`
            <li class="row apart">
              <span class="clip">
                <${Link} to=${taskPath(one)}>${taskName(one)}<//>${" "}
                <span class="faint">
                  ${one.dag_id} · ${runName(one.run_id)}
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
}
