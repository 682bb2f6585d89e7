// What the canvas views share: sharp pixels at every density, drawn once a frame, again when size or theme change.
import { signal, useEffect, useRef } from "../lib/html.js";
import { STATES, colour, stateOf } from "../lib/states.js";
import { theme } from "../lib/theme.js";

/** Grows when the colours change, whatever changed them. */
const colours = signal(0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours.value += 1;
});
let made = null;

/**
 * Colours and fonts as the style sheets have them.
 * @typedef {"text" | "soft" | "faint" | "line" | "strong" | "surface" | "sunken" | "raised" | "accent" | "accentSoft"
 *   | "glyph" | "sans" | "mono"} Name
 * @typedef {Record<Name, string> & { key: string, state: Record<string, string>,
 *   sprites: Map<string, HTMLCanvasElement> }} Palette
 *
 * What a picture is drawn for: its size in CSS pixels, and how many pixels of the screen each of them has.
 * @typedef {{ width: number, height: number, density: number, colours: Palette }} View
 */

/** The colours of now: `{text, soft, line, surface, …, state: {name: colour}}`. */
function palette() {
  const key = `${theme.value} ${colours.value}`;
  if (made?.key === key) return made;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  made = {
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
  return made;
}

/** A state as a small picture, drawn once for each size and density. */
export function sprite(colours, name, size, density, mark) {
  const glyph = mark ?? stateOf(name).glyph;
  const key = `${name} ${size} ${density} ${glyph}`;
  let found = colours.sprites.get(key);
  if (!found) {
    found = document.createElement("canvas");
    found.width = found.height = size * density;
    const on = found.getContext("2d");
    on.scale(density, density);
    on.fillStyle = colours.state[name] ?? colours.state.none;
    on.beginPath();
    on.roundRect(0, 0, size, size, 3);
    on.fill();
    on.fillStyle = name === "none" || name === null ? colours.soft : colours.glyph;
    on.font = `${glyph.length > 1 ? "600 9px" : `${Math.round(size * 0.62)}px`} ${colours.sans}`;
    on.textAlign = "center";
    on.textBaseline = "middle";
    on.fillText(glyph, size / 2, size / 2 + 0.5);
    colours.sprites.set(key, found);
  }
  return found;
}

/**
 * A canvas that fills its box. `draw(on, {width, height, density, colours})` draws all of it; gives `{canvas, redraw}`:
 * `redraw()` asks for the next frame. It is drawn when it first has a size, and when size, colours or `facts` change.
 */
export function useCanvas(draw, facts = []) {
  const canvas = useRef(null);
  const kept = useRef({});
  kept.current.draw = draw;
  const now = useRef(() => {
    kept.current.due = null;
    const box = canvas.current;
    const { width, height } = kept.current;
    if (!box || !width || !height) return;
    const density = devicePixelRatio || 1;
    if (box.width !== Math.round(width * density) || box.height !== Math.round(height * density)) {
      box.width = Math.round(width * density);
      box.height = Math.round(height * density);
    }
    const on = box.getContext("2d");
    on.setTransform(density, 0, 0, density, 0, 0);
    on.clearRect(0, 0, width, height);
    kept.current.draw(on, { width, height, density, colours: palette() });
  }).current;
  const redraw = useRef(() => {
    kept.current.due ??= requestAnimationFrame(now);
  }).current;
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      kept.current.width = entry.contentRect.width;
      kept.current.height = entry.contentRect.height;
      now(); // in the same frame: no flash of an empty canvas
    });
    watch.observe(canvas.current);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(kept.current.due);
    };
  }, []);
  useEffect(redraw, [theme.value, colours.value, ...facts]);
  return { canvas, redraw };
}

/**
 * Measures, once, how long it takes until a view is painted. Its `draw` calls what this gives, with facts about it.
 * @param {string} name under which `performance` has it
 * @param {number} begun of `performance.now()`
 */
export function useFirstPaint(name, begun) {
  const painted = useRef(false);
  return (detail) => {
    if (painted.current) return;
    painted.current = true;
    performance.measure(name, { start: begun, end: performance.now(), detail });
  };
}

const cut = new Map(); // measuring is what takes the time

/** A text cut to a width, with an ellipsis. */
export function clip(on, text, width) {
  const key = `${on.font} ${width} ${text}`;
  let found = cut.get(key);
  if (found === undefined) {
    if (cut.size > 20_000) cut.clear();
    cut.set(key, (found = measured(on, text, width)));
  }
  return found;
}

function measured(on, text, width) {
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

/** A tooltip that follows the pointer without rendering anything: `show(lines, event)`, `hide()`. */
export function useTooltip() {
  const box = useRef(null);
  const tip = useRef({
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
  }).current;
  return { box, tip };
}
