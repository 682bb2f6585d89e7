// Terminal colours in logs: splits a line into pieces with class names; other escape sequences are dropped.

const ESCAPE = /\x1b(?:\[([\d;:]*)m|\[[\d;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;
/** @type {Record<number, string>} */
const ON = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
/** @type {Record<number, string[]>} */
const OFF = {
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
  27: ["inverse"],
  29: ["strike"],
  39: ["fore"],
  49: ["back"],
};

/**
 * A piece of a line: `className` may be "", `style` holds the colours that have no class.
 * @typedef {{ text: string, className: string, style: Record<string, string> | null }} Piece
 *
 * A named colour by number or name, or red, green and blue.
 * @typedef {number | number[] | "surface" | "text"} Colour
 *
 * The active styles, and the colours.
 * @typedef {{ fore?: Colour, back?: Colour, [style: string]: Colour | true | undefined }} Fonts
 *
 * Split a line into pieces. Styles do not carry over from the previous line.
 * @param {string} line
 * @returns {Piece[]}
 */
export function pieces(line) {
  if (!line.includes("\x1b")) return [{ text: line, className: "", style: null }];
  /** @type {Piece[]} */
  const found = [];
  let at = 0;
  /** @type {Fonts} */
  let current = {};
  /** @param {string} text */
  const put = (text) => {
    if (text) found.push({ text, ...styleOf(current) });
  };
  for (const escape of line.matchAll(ESCAPE)) {
    put(line.slice(at, escape.index));
    at = escape.index + escape[0].length;
    if (escape[1] !== undefined) current = changed(current, escape[1]);
  }
  put(line.slice(at));
  return found;
}

/**
 * Class names for the 16 named colours, which every theme defines. Other colours are passed as `--fore` and `--back` to
 * a class that keeps them legible.
 * @param {Fonts} fonts
 */
function styleOf({ fore, back, inverse, ...fonts }) {
  if (inverse) [fore, back] = [back ?? "surface", fore ?? "text"];
  const names = Object.keys(fonts);
  /** @type {Record<string, string>} */
  const style = {};
  for (const [side, colour] of [
    ["fore", fore],
    ["back", back],
  ]) {
    if (colour === undefined) continue;
    names.push(`${side}-${Array.isArray(colour) ? "any" : colour}`);
    if (Array.isArray(colour)) style[`--${side}`] = `rgb(${colour.join(" ")})`;
  }
  if (Array.isArray(back)) names.push(isLight(back) ? "ink-dark" : "ink-light");
  return { className: names.join(" "), style: Object.keys(style).length ? style : null };
}

/** @param {number[]} colour */
const isLight = ([red, green, blue]) => 0.299 * red + 0.587 * green + 0.114 * blue > 140;

/**
 * @param {Fonts} before
 * @param {string} codes
 */
function changed(before, codes) {
  /** @type {Fonts} */
  const now = { ...before };
  const list = codes.split(";");
  for (let i = 0; i < list.length; i++) {
    const [code, ...parts] = list[i].split(":").map(Number);
    if (code === 0) for (const name of Object.keys(now)) delete now[name];
    else if (ON[code]) now[ON[code]] = true;
    else if (OFF[code]) for (const name of OFF[code]) delete now[name];
    else if (code >= 30 && code <= 37) now.fore = code - 30;
    else if (code >= 90 && code <= 97) now.fore = code - 82;
    else if (code >= 40 && code <= 47) now.back = code - 40;
    else if (code >= 100 && code <= 107) now.back = code - 92;
    else if (code === 38 || code === 48) {
      // 256 colours (38;5;n) or true colour (38;2;r;g;b), also separated by colons
      const given = parts.length ? parts : list.slice(i + 1, i + 5).map(Number);
      const colour =
        given[0] === 5
          ? fromPalette(given[parts.length ? given.length - 1 : 1])
          : given[0] === 2
            ? given.slice(parts.length ? -3 : 1)
            : undefined;
      if (colour !== undefined && [colour].flat().every((part) => part >= 0 && part <= 255))
        now[code === 38 ? "fore" : "back"] = colour;
      if (!parts.length) i += given[0] === 5 ? 2 : 4;
    }
  }
  return now;
}

/**
 * A colour from the 256-colour palette: 16 named colours by number, then the colour cube, then greys.
 * @param {number} n
 * @returns {number | number[]}
 */
function fromPalette(n) {
  if (n < 16) return n;
  if (n >= 232) return Array(3).fill(8 + (n - 232) * 10);
  return [36, 6, 1].map((step) => Math.floor((n - 16) / step) % 6).map((level) => level && 55 + level * 40);
}
