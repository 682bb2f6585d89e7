// The visible lines of a log, and scrolling by scroll bar, wheel and keys.
import { classes, html, useEffect, useLayoutEffect } from "../../lib/html.js";
import { query, setQuery } from "../../lib/router.js";
import { Line } from "./line.js";
import { ROW } from "./viewer.js";

/** @typedef {import("./viewer.js").Viewer} Viewer */

const MIN_HEIGHT = 300; // pixels, however little room is left

/**
 * Connect a viewer to its element: size, wheel, and loading of visible lines.
 * @param {Viewer} viewer
 * @param {{ current: HTMLElement | null }} box
 */
export function usePane(viewer, box) {
  useEffect(() => {
    const pane = box.current;
    if (!pane) return undefined;
    const fit = () => {
      const room = innerHeight - pane.getBoundingClientRect().top - scrollY - 24;
      pane.style.height = room >= MIN_HEIGHT ? `${room}px` : "";
    }; // fill the window if that leaves enough height
    fit();
    viewer.box = pane;
    viewer.view = pane.clientHeight;
    const observer = new ResizeObserver(() => {
      viewer.view = pane.clientHeight;
      if (viewer.follow) viewer.toEnd();
      else viewer.redraw();
    });
    /** @param {WheelEvent} event */
    const wheel = (event) => onWheel(event, viewer);
    addEventListener("resize", fit);
    observer.observe(pane);
    pane.addEventListener("wheel", wheel, { passive: false });
    if (viewer.follow) viewer.toEnd();
    else if (viewer.top) viewer.scrollTo(viewer.top);
    return () => {
      observer.disconnect();
      removeEventListener("resize", fit);
      pane.removeEventListener("wheel", wheel);
    };
  }, [viewer, viewer.ready && viewer.file.lines > 0 && !query.value.level]);
  useLayoutEffect(() => viewer.drawn());
  useEffect(() => {
    const due = setTimeout(() => viewer.fill().catch((error) => viewer.fail(error)), 30);
    return () => clearTimeout(due);
  });
}

/**
 * In a scaled log, the wheel scrolls by lines; native scrolling would be far too fast.
 * @param {WheelEvent} event
 * @param {Viewer} viewer
 */
function onWheel(event, viewer) {
  if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
  const by = event.deltaY * (event.deltaMode === 1 ? ROW : 1);
  if (viewer.scale <= 1.001) {
    if (by < 0) viewer.follow = false;
    return;
  }
  if (by < 0 ? viewer.top <= 0 : viewer.top >= viewer.most) return;
  event.preventDefault();
  viewer.move(by);
}

/**
 * @param {KeyboardEvent} event
 * @param {Viewer} viewer
 */
function onKey(event, viewer) {
  const page = viewer.view - ROW;
  /** @type {Record<string, number>} */
  const steps = {
    ArrowDown: ROW,
    ArrowUp: -ROW,
    PageDown: page,
    PageUp: -page,
    " ": page,
    Home: -Infinity,
    End: Infinity,
  };
  const by = steps[event.key];
  if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (by === Infinity) viewer.toEnd();
  else viewer.move(by);
}

/**
 * The lines, with `words` highlighted. Not a component, for the reason given in bar.js.
 * @param {Viewer} viewer
 * @param {{ current: HTMLElement | null }} box ref to the element
 * @param {string} words
 */
export function pane(viewer, box, words) {
  const { file, first, height } = viewer;
  const wrap = Boolean(query.value.wrap);
  const chosen = Number(query.value.line) - 1;
  const count = Math.min(Math.ceil(viewer.view / ROW) + 2, file.lines - first);
  const lines = Array.from({ length: Math.max(count, 0) }, (_, i) => first + i);
  return html`
    <div
      class=${classes("pane", wrap && "wrap")}
      style=${wrap ? undefined : { maxHeight: `${file.lines * ROW + 18}px` }}
      ref=${box}
      tabindex="0"
      role="region"
      aria-label="Log"
      onScroll=${() => viewer.scrolled()}
      onKeyDown=${(e) => onKey(e, viewer)}
    >
      <div style=${{ height: `${height}px`, minWidth: "100%", width: wrap ? "auto" : "max-content" }}>
        <div class="window" style=${{ height: `${Math.min(viewer.view, height)}px` }}>
          <div style=${{ marginTop: `${-(viewer.top % ROW)}px` }}>
            ${lines.map((n) => html`
              <${Line}
                key=${n}
                number=${n}
                text=${file.peek(n)}
                words=${words}
                chosen=${n === chosen}
                onChoose=${(line) => setQuery({ line: line + 1 })}
              />
            `)}
          </div>
        </div>
      </div>
    </div>
  `;
}
