// Icons of the navigation and of states: lines on a field of 16 by 16, in the colour of the text around them.
import { html } from "../lib/html.js";

/** By the address of a page without its first slash; "" is Home. @type {Record<string, string>} */
const PAGES = {
  "": "M2 7.5 8 2.5l6 5M3.5 6.5v7h3.5v-4h2v4h3.5v-7",
  dags: "M2 6.5h4v3H2zM10 2.5h4v3h-4zM10 10.5h4v3h-4zM6 8h2M8 8V4h2M8 8v4h2",
  runs: "M5 3.5v9l7-4.5z",
  "task-instances": "M2.5 3h3v3h-3zM2.5 10h3v3h-3zM8 4.5h5.5M8 11.5h5.5",
  backfills: "M7.5 3.5 3 8l4.5 4.5M13 3.5 8.5 8l4.5 4.5",
  schedules: "M3 4h10v9.5H3zM3 7h10M5.5 2.5v3M10.5 2.5v3M8 9v2l1.5 1",
  dependencies: "M3 3.5h3v3H3zM10 9.5h3v3h-3zM6 5h5.5v4.5M4.5 6.5V11H10",
  assets: "M2.5 4c0-2 11-2 11 0v8c0 2-11 2-11 0zM2.5 4c0 2 11 2 11 0M2.5 8c0 2 11 2 11 0",
  inputs: "M2.5 3h11v8H8l-3 2.5V11H2.5zM5.5 6h5M5.5 8.5h3",
  pools: "M2.5 3h3v10h-3zM6.5 7h3v6h-3zM10.5 5h3v8h-3z",
  schedulers: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3l2.5 1.5",
  alerts: "M4.5 11V7a3.5 3.5 0 0 1 7 0v4l1.5 1H3zM7 14h2",
  "import-errors": "M4 2.5h5l3 3v8H4zM9 2.5v3h3M8 7v3M8 11.5v.5",
  requests: "M2.5 8h8M7.5 5l3 3-3 3M13.5 3v10",
  secrets: "M5 8.5a2.5 2.5 0 1 0 .01 0M7 9.5l6-6M11 5.5l1.5 1.5M9.5 7l1 1",
  settings: "M2.5 4.5h5M10.5 4.5h3M9 3v3M2.5 11.5h3M8.5 11.5h5M7 10v3",
  users: "M8 2.5a2.5 2.5 0 1 0 .01 0M3 13.5c.5-5 9.5-5 10 0",
  audit: "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2",
};

/** Those of states; a canvas paints their glyphs, see states.js. @type {Record<string, string>} */
const STATES = {
  success: "M3.5 8.5l3 3 6-7",
  failed: "M4 4l8 8M12 4l-8 8",
  running: "M5.5 3.5v9l7-4.5z",
  queued: "M8 3a5 5 0 1 0 .01 0M8 5.5V8l2 1.5",
  scheduled: "M8 3.5a4.5 4.5 0 1 0 .01 0",
  deferred: "M11.5 12A5 5 0 1 1 11.5 4 6 6 0 0 0 11.5 12",
  up_for_retry: "M12.5 8a4.5 4.5 0 1 1-1.5-3.3M12.5 2.5v3h-3",
  up_for_reschedule: "M3 5.5h9M9.5 3l2.5 2.5L9.5 8M13 10.5H4M6.5 8L4 10.5 6.5 13",
  upstream_failed: "M8 3a5 5 0 1 0 .01 0M4.5 4.5l7 7",
  skipped: "M3.5 4l4 4-4 4M8.5 4l4 4-4 4",
  removed: "M4 8h8",
  restarting: "M3.5 8a4.5 4.5 0 1 0 1.5-3.3M3.5 2.5v3h3",
  shutdown: "M5.5 5a4.5 4.5 0 1 0 5 0M8 2.5v5",
  paused: "M6 4v8M10 4v8",
  mixed: "M4 5h8M4 8h8M4 11h8",
  none: "M8 7.5v1",
};

const UNKNOWN_PAGE = "M4 2.5h8v11H4z";
const UNKNOWN_STATE = "M6 6a2 2 0 1 1 2 2v1.5M8 11.5v.5";

/** @param {{ lines: string }} props */
const Icon = ({ lines }) => html`
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d=${lines} />
  </svg>
`;

/** @param {{ to: string }} props */
export const PageIcon = ({ to }) => html`<${Icon} lines=${PAGES[to.slice(1)] ?? UNKNOWN_PAGE} />`;

/** @param {{ name: string | null | undefined }} props */
export const StateIcon = ({ name }) => html`<${Icon} lines=${STATES[name || "none"] ?? UNKNOWN_STATE} />`;
