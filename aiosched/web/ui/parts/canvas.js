// Shared by the canvas views: sharp at every pixel density, drawn once per frame, redrawn on size or theme change.
import { signal, useEffect, useRef } from "../lib/html.js";
import { STATES, colour, stateOf } from "../lib/states.js";
import { theme } from "../lib/theme.js";

/** Incremented when the system theme changes. */
export const colours = signal(0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours.value += 1;
});
/** @type {Palette | null} */
let cachedPalette = null;

/**
 * Colours and fonts from the style sheets.
 * @typedef {"text" | "soft" | "faint" | "line" | "strong" | "surface" | "sunken" | "raised" | "accent" | "accentSoft"
 *   | "glyph" | "sans" | "mono"} Name
 * @typedef {Record<Name, string> & { key: string, state: Record<string, string>,
 *   sprites: Map<string, HTMLCanvasElement> }} Palette
 *
 * What is drawn on: the size in CSS pixels, and device pixels per CSS pixel.
 * @typedef {{ width: number, height: number, density: number, colours: Palette }} View
 *
 * @typedef {(on: CanvasRenderingContext2D, view: View) => void} Draw
 *
 * @typedef {Ref<HTMLCanvasElement & { parentElement: HTMLElement }>} CanvasRef
 *
 * A tooltip: `show` puts lines next to the pointer, empty ones are omitted.
 * @typedef {{ show: (lines: (string | false | null | undefined)[], event: MouseEvent) => void, hide: () => void }} Tip
 */

/** The current palette: `{text, soft, line, surface, …, state: {name: colour}}`. */
function palette() {
  const key = `${theme.value} ${colours.value}`;
  if (cachedPalette?.key === key) return cachedPalette;
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  cachedPalette = {
    key,
    text: read("text"),
    soft: read("text-soft"),
    faint: read("text-faint"),
    line: read("line"),
    strong: read("line-strong"),
    surface: read("surface"),
    sunken: read("sunken"),
    raised: read("raised"),
    accent: read("accent"),
    accentSoft: read("accent-soft"),
    glyph: read("state-glyph"),
    sans: read("sans"),
    mono: read("mono"),
    state: Object.fromEntries(Object.keys(STATES).map((name) => [name, colour(name)])),
    sprites: new Map(),
  };
  return cachedPalette;
}

/**
 * A state icon, drawn once per size and density.
 * @param {Palette} colours
 * @param {string} name
 * @param {number} size
 * @param {number} density
 * @param {string} [mark] shown instead of the state's glyph
 */
export function sprite(colours, name, size, density, mark) {
  const glyph = mark ?? stateOf(name).glyph;
  const key = `${name} ${size} ${density} ${glyph}`;
  let found = colours.sprites.get(key);
  if (!found) {
    found = document.createElement("canvas");
    found.width = found.height = size * density;
    const on = contextOf(found);
    on.scale(density, density);
    on.fillStyle = colours.state[name] ?? colours.state.none;
    on.beginPath();
    on.roundRect(0, 0, size, size, 3);
    on.fill();
    on.fillStyle = name === "none" || name === null ? colours.soft : colours.glyph;
    on.font = `${fontOf(glyph, size)} ${colours.sans}`;
    on.textAlign = "center";
    on.textBaseline = "middle";
    on.fillText(glyph, size / 2, size / 2 + 0.5);
    colours.sprites.set(key, found);
  }
  return found;
}

/**
 * The font in which a glyph or a number fits into its icon.
 * @param {string} glyph
 * @param {number} size of the icon
 */
function fontOf(glyph, size) {
  if (glyph.length === 1) return `${Math.round(size * 0.62)}px`;
  return glyph.length === 2 ? "600 9px" : "600 7px";
}

/**
 * What draws on a canvas; browsers always have one for "2d".
 * @param {HTMLCanvasElement} canvas
 */
const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/**
 * A canvas that fills its container. `draw(on, {width, height, density, colours})` draws all of it. Returns
 * `{canvas, redraw}`; `redraw()` schedules a frame. Also redrawn when the size, the colours or `deps` change.
 * @param {Draw} draw
 * @param {unknown[]} [deps]
 */
export function useCanvas(draw, deps = []) {
  /** @type {Ref<HTMLCanvasElement & { parentElement: HTMLElement }>} */
  const canvas = useRef(null);
  /** @type {Ref<{ draw?: Draw, due?: number | null, width?: number, height?: number }>} */
  const state = useRef({});
  state.current.draw = draw;
  const paint = useRef(() => {
    state.current.due = null;
    const box = canvas.current;
    const { width, height } = state.current;
    if (!box || !width || !height) return;
    const density = devicePixelRatio || 1;
    if (box.width !== Math.round(width * density) || box.height !== Math.round(height * density)) {
      box.width = Math.round(width * density);
      box.height = Math.round(height * density);
    }
    const on = contextOf(box);
    on.setTransform(density, 0, 0, density, 0, 0);
    on.clearRect(0, 0, width, height);
    state.current.draw?.(on, { width, height, density, colours: palette() });
  }).current;
  const redraw = useRef(() => {
    state.current.due ??= requestAnimationFrame(paint);
  }).current;
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      state.current.width = entry.contentRect.width;
      state.current.height = entry.contentRect.height;
      paint(); // in the same frame, so that no empty canvas flashes
    });
    observer.observe(canvas.current);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(state.current.due ?? 0);
    };
  }, []);
  useEffect(redraw, [theme.value, colours.value, ...deps]);
  return { canvas, redraw };
}

/**
 * Measure once how long the first paint of a view takes. Its `draw` calls the returned function with details.
 * @param {string} name name of the `performance` measure
 * @param {number} startedAt start time, from `performance.now()`
 * @returns {(detail: object) => void}
 */
export function useFirstPaint(name, startedAt) {
  const painted = useRef(false);
  return (detail) => {
    if (painted.current) return;
    painted.current = true;
    performance.measure(name, { start: startedAt, end: performance.now(), detail });
  };
}

/** @type {Map<string, string>} */
const clipped = new Map(); // measuring text is slow

/**
 * Truncate text to a width, with an ellipsis.
 * @param {CanvasRenderingContext2D} on
 * @param {string} text
 * @param {number} width
 */
export function clip(on, text, width) {
  const key = `${on.font} ${width} ${text}`;
  let found = clipped.get(key);
  if (found === undefined) {
    if (clipped.size > 20_000) clipped.clear();
    clipped.set(key, (found = truncated(on, text, width)));
  }
  return found;
}

/**
 * @param {CanvasRenderingContext2D} on
 * @param {string} text
 * @param {number} width
 */
function truncated(on, text, width) {
  if (on.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (on.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

/**
 * A tooltip that follows the pointer without rerendering: `show(lines, event)`, `hide()`.
 * @returns {{ box: Ref<HTMLElement>, tip: Tip }}
 */
export function useTooltip() {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  const tip = useRef(
    /** @type {Tip} */ ({
      show(lines, event) {
        const at = box.current;
        if (!at) return;
        at.replaceChildren(
          ...lines.filter(Boolean).map((line, i) => {
            const row = document.createElement(i ? "span" : "b");
            row.textContent = line;
            return row;
          }),
        );
        at.hidden = false;
        const { width, height } = at.getBoundingClientRect();
        at.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
        const below = event.clientY + 18;
        at.style.top = `${below + height > innerHeight ? event.clientY - height - 10 : below}px`;
      },
      hide() {
        if (box.current) box.current.hidden = true;
      },
    }),
  ).current;
  return { box, tip };
}
