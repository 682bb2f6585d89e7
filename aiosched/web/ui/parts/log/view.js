// The log of a try: only the visible lines are rendered, so 200 MB scroll like 2 kB.
import { html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { apiUrl } from "../../lib/api.js";
import { useKey } from "../../lib/keys.js";
import { query } from "../../lib/router.js";
import { Empty, Failure, Loading, Stale } from "../basics.js";
import { LevelLines } from "./levels.js";
import { bar, toggleWrap } from "./bar.js";
import { pane, usePane } from "./pane.js";
import { Viewer } from "./viewer.js";

/**
 * `path` is the API path of the log, `name` the name of the download; `running`: follow the log; `failed`: start at the
 * last error.
 * @param {{ path: string, params: object, name: string, running?: boolean, failed?: boolean }} props
 */
export function LogView({ path, params, name, running = false, failed = false }) {
  const [, redraw] = useState(0);
  const [words, setWords] = useState("");
  /** @type {Ref<HTMLElement | null>} */
  const box = useRef(null);
  /** @type {Ref<HTMLInputElement | null>} */
  const field = useRef(null);
  const { level } = query.value;
  const address = apiUrl(path, params);
  const viewer = useMemo(
    () => new Viewer(path, params, { running, failed }, () => redraw((n) => n + 1)),
    [address],
  );
  /** @type {Ref<Viewer>} */
  const current = useRef(null); // shortcuts are bound once
  current.current = viewer;
  useEffect(() => {
    viewer.open();
    return () => viewer.end();
  }, [viewer]);
  usePane(viewer, box);
  useKey("e", "next error in the log", () => current.current.nextError(1));
  useKey("w", "wrap long lines of the log", toggleWrap);
  useKey("f", "search in the log", () => field.current?.focus());
  const retry = () => {
    viewer.error = null;
    viewer.open();
  };
  const error = viewer.error ?? (viewer.ready ? null : viewer.outage);
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!viewer.ready)
    return html`
      <div style=${{ padding: "14px 16px" }}>
        <${Loading} lines=${8} />
      </div>
    `;
  if (!viewer.file.lines) return html`<${EmptyLog} complete=${viewer.file.complete} />`;
  return html`
    <div class="log">
      <${Stale} error=${viewer.outage} />
      ${bar({ viewer, address, name, words, setWords, field })}
      ${level ? html`
        <${LevelLines} key=${level} viewer=${viewer} path=${path} params=${params} level=${level} />
      ` : (
        pane(viewer, box, words.trim())
      )}
    </div>
  `;
}

/** @param {{ complete: boolean }} props */
function EmptyLog({ complete }) {
  if (complete)
    return html`<${Empty} title="The log is empty">Output that the task prints or logs appears here.<//>`;
  return html`<${Empty} title="Nothing logged yet">Lines appear here as the task writes them.<//>`;
}
