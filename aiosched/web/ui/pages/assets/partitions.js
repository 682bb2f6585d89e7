// The partitions of an asset as a grid, by date or by key, and runs that make those that are chosen.
import { classes, html, useState } from "../../lib/html.js";
import { at, post } from "../../lib/api.js";
import { counted } from "../../lib/names.js";
import { useResource } from "../../lib/resources.js";
import { instant } from "../../lib/time.js";
import { Card } from "../../parts/basics.js";
import { Confirm, toast } from "../../parts/dialog.js";
import { Allowed } from "../../parts/facts.js";
import { SelectField } from "../../parts/form.js";
import { KINDS } from "./links.js";

/** @typedef {Api["PartitionResource"]} Partition */
/** @typedef {{ key: string, words: string, of?: Partition }} Cell */
/** @typedef {{ name: string, cells: Cell[] }} Row */

const [DAY, HOUR] = [86_400_000, 3_600_000];
const MOST_CELLS = 2_000; // of dates; more have gaps that nobody wants to see

/**
 * Rows of dates with their gaps: the days of a month, or the hours of a day; of other keys one row.
 * @param {Partition[]} partitions
 * @returns {Row[]}
 */
export function rowsOf(partitions) {
  const known = new Map(partitions.map((one) => [one.key, one]));
  const isDays = partitions.every(({ key }) => /^\d{4}-\d\d-\d\d$/.test(key));
  const isHours = partitions.every(({ key }) => /^\d{4}-\d\d-\d\dT\d\d:00:00$/.test(key));
  const keyOf = (/** @type {number} */ time) => new Date(time).toISOString().slice(0, isDays ? 10 : 19);
  const [step, head] = isDays ? [DAY, 7] : [HOUR, 10];
  const times = isDays || isHours ? partitions.map(({ key }) => Date.parse(isDays ? key : `${key}Z`)) : [];
  const [first, last] = [times[0], times.at(-1) ?? NaN];
  const isSure = times.every((time, i) => time && keyOf(time) === partitions[i].key); // no 30th of February
  if (!isSure || !((last - first) / step < MOST_CELLS))
    return [{ name: "", cells: partitions.map((of) => ({ key: of.key, words: of.key, of })) }];
  /** @type {Map<string, Cell[]>} */
  const rows = new Map();
  for (let time = first; time <= last; time += step) {
    const key = keyOf(time);
    const name = key.slice(0, head);
    const cell = { key, words: isDays ? key.slice(8) : key.slice(11, 13), of: known.get(key) };
    rows.set(name, [...(rows.get(name) ?? []), cell]);
  }
  return [...rows].map(([name, cells]) => ({ name, cells })).reverse();
}

/** @param {Partition | undefined} of @returns {[kind: string, words: string]} */
function stateOf(of) {
  if (!of) return ["missing", "missing"];
  if (of.is_made) return ["made", `made ${instant(of.last_event_at)}`];
  return [of.state === "failed" ? "failed" : "going", `${of.state ?? "not made"} (${of.run_id})`];
}

/** @param {{ asset: Api["AssetResource"] }} props */
export function Partitions({ asset }) {
  /** @type {Resource<Api["PartitionsResource"]>} */
  const found = useResource("asset-partitions", { name: asset.name }, KINDS);
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [open, setOpen] = useState(false);
  const all = found.data.value;
  if (!all?.partitions.length) return null;
  const rows = rowsOf(all.partitions);
  const missing = rows.flatMap(({ cells }) => cells.filter(({ of }) => !of || of.state === "failed"));
  const toggle = (/** @type {string} */ key) =>
    setChosen(chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key]);
  return html`
    <${Card}
      title="Partitions"
      actions=${
        asset.producers.length > 0 && html`
          <${Allowed} quiet>
            ${missing.length > 0 && html`
              <button class="button small" onClick=${() => setChosen(missing.map(({ key }) => key))}>
                Choose missing and failed
              </button>
            `}
            <button class="button small primary" disabled=${!chosen.length} onClick=${() => setOpen(true)}>
              Run ${counted(chosen.length, "partition")} …
            </button>
          <//>
        `
      }
    >
      <div class="keys" role="group" aria-label="Partitions">
        ${rows.map(({ name, cells }) => html`
          <div class="row near" key=${name}>
            ${name && html`<b class="tabular">${name}</b>`}
            ${cells.map(({ key, words, of }) => {
              const [kind, state] = stateOf(of);
              return html`
                <button
                  type="button"
                  key=${key}
                  class=${classes("key", kind)}
                  aria-pressed=${chosen.includes(key) ? "true" : "false"}
                  aria-label=${`${key}: ${state}`}
                  title=${`${key}: ${state}`}
                  onClick=${() => toggle(key)}
                >
                  ${words}
                </button>
              `;
            })}
          </div>
        `)}
      </div>
      <p class="soft">
        ${counted(all.partitions.length, "partition")}, by the key of events and of runs.
        ${!all.is_complete && " Older ones are not shown."}
      </p>
      ${open && html`
        <${Run}
          producers=${asset.producers}
          keys=${[...chosen].sort()}
          onClose=${() => setOpen(false)}
          onDone=${() => (setChosen([]), found.reload())}
        />
      `}
    <//>
  `;
}

const AT_ONCE = 1_000;

/** @param {DialogProps & { producers: string[], keys: string[] }} props */
function Run({ producers, keys, onClose, onDone }) {
  const [dag, setDag] = useState(producers[0]);
  /** @returns {Promise<Answer>} */
  const act = async () => {
    const runs = keys.slice(0, AT_ONCE).map((key) => ({ partition_key: key }));
    const made = /** @type {Api["TriggeredRuns"]} */ (await post(`${at("dags", dag, "runs")}/batch`, { runs }))
      .runs;
    const errors = made.filter((one) => one.error !== null);
    if (errors.length === made.length) throw new Error(errors[0].error ?? "");
    if (errors.length) toast(`${errors.length} of ${made.length} were refused: ${errors[0].error}`, "danger");
    return /** @type {Answer} */ ({ made: made.length - errors.length });
  };
  return html`
    <${Confirm}
      title=${`Run ${counted(keys.length, "partition")}`}
      submitLabel="Run"
      act=${act}
      done=${(/** @type {{ made: number }} */ { made }) => `${counted(made, "run")} of ${dag} created.`}
      disabled=${keys.length > AT_ONCE}
      onClose=${onClose}
      onDone=${onDone}
    >
      <p>
        One run for each partition: ${keys.slice(0, 8).join(", ")}
        ${keys.length > 8 && " …"}
      </p>
      ${keys.length > AT_ONCE && html`<p class="wrong">At most ${AT_ONCE} at once: choose fewer.</p>`}
      ${producers.length > 1 && html`
        <${SelectField}
          id="partition-dag"
          label="By"
          value=${dag}
          options=${producers.map((one) => [one, one])}
          onText=${setDag}
        />
      `}
    <//>
  `;
}
