// States with colour, glyph and text: no view relies on colour alone. Colours are CSS variables in base.css; glyphs are
// for canvases, elsewhere parts/icons.js has drawings.

/** @type {Record<string, { glyph: string, label: string }>} */
export const STATES = {
  success: { glyph: "✓", label: "success" },
  failed: { glyph: "✕", label: "failed" },
  running: { glyph: "▶", label: "running" },
  queued: { glyph: "◔", label: "queued" },
  scheduled: { glyph: "○", label: "scheduled" },
  deferred: { glyph: "◐", label: "deferred" },
  up_for_retry: { glyph: "↻", label: "up for retry" },
  up_for_reschedule: { glyph: "⇄", label: "up for reschedule" },
  upstream_failed: { glyph: "⊘", label: "upstream failed" },
  skipped: { glyph: "»", label: "skipped" },
  removed: { glyph: "−", label: "removed" },
  restarting: { glyph: "⟲", label: "restarting" },
  shutdown: { glyph: "⏻", label: "shutting down" },
  none: { glyph: "·", label: "no state" },
  paused: { glyph: "‖", label: "paused" },
  mixed: { glyph: "≡", label: "mixed" },
};

/**
 * Glyph and label of a state; unknown states are shown by name.
 * @param {string | null | undefined} name
 */
export const stateOf = (name) => STATES[name || "none"] || { glyph: "?", label: String(name) };

/** Which of many states represents them all: the most urgent one. */
const WORST = [
  "failed",
  "upstream_failed",
  "up_for_retry",
  "running",
  "restarting",
  "shutdown",
  "queued",
  "deferred",
  "up_for_reschedule",
  "scheduled",
  "none",
  "success",
  "skipped",
  "removed",
];
/** @param {Record<string, number>} counts */
export const worst = (counts) => WORST.find((state) => counts[state]) || "none";

/**
 * State counts as `[state, count]`, most urgent first.
 * @param {Record<string, number>} counts
 * @returns {[string, number][]}
 */
export const byState = (counts) =>
  WORST.filter((state) => counts[state]).map((state) => [state, counts[state]]);

/** The states and types of runs. */
export const RUN_STATES = ["queued", "running", "success", "failed"];
export const RUN_TYPES = ["scheduled", "manual", "backfill", "asset_triggered"];
/** @param {string} type */
export const runTypeWords = (type) => (type === "asset_triggered" ? "asset-triggered" : type);

/**
 * The current colour of a state, for canvases.
 * @param {string | null} name
 */
export function colour(name) {
  return (
    getComputedStyle(document.documentElement)
      .getPropertyValue(`--state-${name || "none"}`)
      .trim() || "#888"
  );
}
