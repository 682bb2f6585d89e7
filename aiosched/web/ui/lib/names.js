// Names and paths of task instances.
import { path } from "./router.js";
import { runTypeWords } from "./states.js";
import { dayAndTime } from "./time.js";

/** @typedef {{ dag_id: string, run_id: string, task_id: string, map_index: number }} TaskPlace */

/**
 * `load`, or `load[3]` for an instance of a mapped task.
 * @param {{ task_id: string, map_index?: number | null }} instance
 */
export const taskName = ({ task_id, map_index }) =>
  (map_index ?? -1) >= 0 ? `${task_id}[${map_index}]` : task_id;

/**
 * A DAG for people: its display name, or its id.
 * @param {{ dag_id: string, dag_display_name: string | null }} dag
 */
export const shownDag = ({ dag_id, dag_display_name }) => dag_display_name ?? dag_id;

/**
 * A task instance for people: as its name, with the display name of its task in place of the id.
 * @param {{ task_id: string, task_display_name: string | null, map_index?: number | null }} instance
 */
export const shownTask = ({ task_id, task_display_name, map_index }) =>
  taskName({ task_id: task_display_name ?? task_id, map_index });

/**
 * A row or a box for people: its label, if that is no part of its id, and its id.
 * @param {{ id: string, label: string }} one
 */
export const labelAndId = ({ id, label }) => (`.${id}`.endsWith(`.${label}`) ? [id] : [label, id]);

/** @type {Record<string, string>} */
const DECORATORS = {
  AssetCheckOperator: "@asset_check",
  DecoratedOperator: "@task",
  DecoratedBashOperator: "@task.bash",
  DecoratedBranchOperator: "@task.branch",
  DecoratedSensorOperator: "@task.sensor",
  DecoratedShortCircuitOperator: "@task.short_circuit",
};

/**
 * An operator as its author wrote it: the decorator, or the class.
 * @param {string} operator
 */
export const operatorWords = (operator) => DECORATORS[operator] ?? operator;

/**
 * The path of the page of a task instance.
 * @param {TaskPlace} place
 */
export const taskPath = ({ dag_id, run_id, task_id, map_index }) =>
  path("dags", dag_id, "runs", run_id, "tasks", task_id) + (map_index >= 0 ? `?map_index=${map_index}` : "");

/**
 * A run as people speak of it: `26 Nov, 23:00 · scheduled`.
 * @param {{ logical_date: string | null, run_after: string, run_type: string }} run
 */
export const runTitle = (run) =>
  `${dayAndTime(run.logical_date ?? run.run_after)} · ${runTypeWords(run.run_type)}`;

const MADE = /^[a-z_]+?__(\d{4}-\d\d-\d\dT[\d:.]+\+00:00)(?:_[0-9a-f]{8})?$/; // as core/values/ids.py makes them

/**
 * A run in lists, by its id: `26 Nov, 23:00` if the id was made of its type and an instant; else the id, which people
 * chose.
 * @param {string} runId
 */
export function runName(runId) {
  const made = MADE.exec(runId);
  return made ? dayAndTime(made[1]) : runId;
}

/**
 * A number with separators: `48,125`.
 * @param {number} number
 */
export const numeral = (number) => number.toLocaleString("en");

/**
 * A number with its noun: `1 slot`, `2,000 slots`.
 * @param {number} number
 * @param {string} noun
 */
export const counted = (number, noun) => `${numeral(number)} ${noun}${number === 1 ? "" : "s"}`;
