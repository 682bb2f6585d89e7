// States by colour, glyph and text: no view relies on colour alone. Colours are CSS variables of base.css.

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

/** The facts of a state; unknown ones show as themselves. */
export const stateOf = (name) => STATES[name || "none"] || { glyph: "?", label: name };

/** Which of many states stands for all of them: the one that people must see first. */
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
export const worst = (counts) => WORST.find((state) => counts[state]) || "none";

/** Counts of states as `[state, count]`, the ones that matter first. */
export const byState = (counts) =>
  WORST.filter((state) => counts[state]).map((state) => [state, counts[state]]);

/** The states of runs, and how runs come about. */
export const RUN_STATES = ["queued", "running", "success", "failed"];
export const RUN_TYPES = ["scheduled", "manual", "backfill", "asset_triggered"];
export const runTypeWords = (type) => (type === "asset_triggered" ? "by assets" : type);

/** A state's colour as the browser has it now, for canvases. */
export function colour(name) {
  return (
    getComputedStyle(document.documentElement)
      .getPropertyValue(`--state-${name || "none"}`)
      .trim() || "#888"
  );
}
