// What rules watch, in words, and which of their fields each kind has.

/** @type {Choice[]} */
export const KINDS = [
  ["run_failed", "A run failed"],
  ["run_late", "A run is late"],
  ["run_long", "A run takes longer than usual"],
  ["deadline_missed", "An SLA or deadline passed"],
  ["import_error", "A DAG file has an import error"],
  ["scheduler_gone", "A scheduler is gone"],
  ["parser_silent", "A parser is silent"],
  ["pool_starving", "A pool is full while tasks wait, or they can never start"],
  ["dag_quarantined", "A DAG is in quarantine"],
  ["commits_lost", "The database has lost commits"],
  ["machines_differ", "Machines of schedulers differ"],
];

/** @type {Record<string, [glyph: string, kind: string, words: string]>} */
export const SEVERITIES = {
  critical: ["✕", "danger", "critical"],
  warning: ["!", "warn", "warning"],
  info: ["i", "", "info"],
};

/** Of which types of runs: the value in a draft, and words. @type {Choice[]} */
export const RUN_TYPES = [
  ["", "all runs"],
  ["scheduled,asset_triggered,manual", "not of backfills"],
  ["scheduled,asset_triggered", "not of backfills, not manual ones"],
];

/** @param {string} kind */
export const hasRuns = (kind) => ["run_failed", "run_long", "deadline_missed"].includes(kind);

/** @param {string} kind */
export const kindWords = (kind) => KINDS.find(([key]) => key === kind)?.[1] ?? kind;

/** The label of `seconds`, for kinds that have them. @type {Record<string, string>} */
export const SECONDS = {
  run_late: "Late by at least, in seconds",
  run_long: "Longer than the usual p95 by, in seconds",
  pool_starving: "For at least, in seconds",
};

/** @param {string} kind */
export const hasDags = (kind) =>
  !["scheduler_gone", "parser_silent", "pool_starving", "commits_lost", "machines_differ"].includes(kind);

/** @param {Api["AlertRuleResource"]} rule */
export const selectionWords = (rule) =>
  [...rule.dags, ...rule.tags.map((tag) => `tag ${tag}`), ...rule.owners.map((owner) => `owner ${owner}`)].join(
    ", ",
  ) || (hasDags(rule.kind) ? "all DAGs" : "all");

/** @param {string[]} types */
export const runsWords = (types) => types.map((type) => type.replaceAll("_", " ")).join(", ") || "all";
