// Markdown as data: blocks and pieces of text, so that a page is made of them without any HTML of the author.

const MOST = 100_000; // characters: what is longer is shown as it is
const LONGEST = 5_000; // of one paragraph with marks
const DEEPEST = 6;

/**
 * The blocks of a text.
 * @param {string} text
 * @returns {Block[]}
 */
export const blocksOf = (text) =>
  text.length > MOST ? [["code", text]] : blocks(text.replaceAll("\r\n", "\n").split("\n"), 0);

const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)? *$/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const DELIMITER = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

/**
 * @param {string[]} lines
 * @param {number} depth
 * @returns {Block[]}
 */
function blocks(lines, depth) {
  /** @type {Block[]} */
  const found = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    const heading = HEADING.exec(line);
    const fence = FENCE.exec(line)?.[1];
    if (!line.trim()) i++;
    else if (fence) {
      let end = i + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence)) end++;
      found.push(["code", lines.slice(i + 1, end).join("\n")]);
      i = end + 1;
    } else if (heading) {
      found.push(["heading", heading[1].length, piecesOf(heading[2])]);
      i++;
    } else if (RULE.test(line)) {
      found.push(["rule"]);
      i++;
    } else if (depth < DEEPEST && QUOTE.test(line)) {
      const end = after(lines, i, (one) => QUOTE.test(one));
      const inner = lines.slice(i, end).map((one) => one.replace(QUOTE, ""));
      found.push(["quote", blocks(inner, depth + 1)]);
      i = end;
    } else if (depth < DEEPEST && ITEM.test(line)) {
      const [list, end] = listOf(lines, i, depth);
      found.push(list);
      i = end;
    } else if (line.includes("|") && lines[i + 1]?.includes("-") && DELIMITER.test(lines[i + 1])) {
      const end = after(lines, i + 2, (one) => one.includes("|"));
      found.push(["table", cellsOf(line), lines.slice(i + 2, end).map(cellsOf)]);
      i = end;
    } else {
      const end = after(lines, i + 1, (one) => one.trim() !== "" && !begins(one));
      found.push(["paragraph", piecesOf(lines.slice(i, end).join("\n"))]);
      i = end;
    }
  }
  return found;
}

/** @param {string} line */
const begins = (line) =>
  [FENCE, HEADING, RULE, QUOTE].some((one) => one.test(line)) || /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(line);

/**
 * The first line from `i` on for which `isPart` is false.
 * @param {string[]} lines
 * @param {number} i
 * @param {(line: string) => boolean} isPart
 */
function after(lines, i, isPart) {
  while (i < lines.length && isPart(lines[i])) i++;
  return i;
}

/** @param {string} line */
const cellsOf = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => piecesOf(cell.trim()));

/**
 * @param {string[]} lines
 * @param {number} start
 * @param {number} depth
 * @returns {[Block, number]} the list, and the line after it
 */
function listOf(lines, start, depth) {
  const isNumbered = /\d/.test(ITEM.exec(lines[start])?.[2] ?? "");
  /** @type {string[][]} */
  const items = [];
  let width = 0;
  let i = start;
  for (; i < lines.length; i++) {
    const line = lines[i];
    const item = ITEM.exec(line);
    const indent = line.length - line.trimStart().length;
    if (item && (!items.length || indent < width)) {
      if (/\d/.test(item[2]) !== isNumbered || RULE.test(line)) break;
      width = item[0].length;
      items.push([line.slice(width)]);
    } else if (!line.trim()) {
      const next = lines[i + 1];
      if (next === undefined || !(ITEM.test(next) || next.startsWith(" ".repeat(Math.min(width, 2))))) break;
      items.at(-1)?.push("");
    } else if (indent >= Math.min(width, 2) || !begins(line))
      items.at(-1)?.push(line.slice(Math.min(indent, width)));
    else break;
  }
  return [["list", isNumbered, items.map((item) => blocks(item, depth + 1))], i];
}

const MARKED = /`+|\*\*|__|\*|_|\[|https?:\/\/|\\[!-/:-@[-`{-~]/g;
const ADDRESS = /^(?:https?:\/\/|mailto:)[^\s<>"]+$/i;

/**
 * The pieces of the text of a paragraph.
 * @param {string} text
 * @param {number} [depth]
 * @returns {Piece[]}
 */
export function piecesOf(text, depth = 0) {
  if (text.length > LONGEST || depth > DEEPEST) return [["text", text]];
  /** @type {Piece[]} */
  const found = [];
  let done = 0;
  const marks = new RegExp(MARKED);
  for (let mark = marks.exec(text); mark; mark = marks.exec(text)) {
    const made = pieceAt(text, mark.index, mark[0], depth);
    if (!made) continue;
    if (mark.index > done) found.push(["text", text.slice(done, mark.index)]);
    found.push(made[0]);
    done = marks.lastIndex = made[1];
  }
  if (done < text.length) found.push(["text", text.slice(done)]);
  return found;
}

/**
 * What begins at a mark, and where it ends; null if the mark is only text.
 * @param {string} text
 * @param {number} at
 * @param {string} mark
 * @param {number} depth
 * @returns {[Piece, number] | null}
 */
function pieceAt(text, at, mark, depth) {
  const start = at + mark.length;
  if (mark[0] === "\\") return [["text", mark[1]], start];
  if (mark[0] === "`") {
    const end = text.indexOf(mark, start);
    return end < 0 ? null : [["code", text.slice(start, end).trim()], end + mark.length];
  }
  if (mark === "[") {
    const close = text.indexOf("](", start);
    const end = close < 0 ? -1 : text.indexOf(")", close);
    const address = text
      .slice(close + 2, end)
      .trim()
      .split(/\s/)[0];
    if (end < 0 || !ADDRESS.test(address)) return null;
    return [["link", address, piecesOf(text.slice(start, close), depth + 1)], end + 1];
  }
  if (mark.startsWith("http")) {
    const address = /^[^\s<>"`*|]+/.exec(text.slice(at))?.[0].replace(/[).,;:!?'\]]+$/, "") ?? "";
    return address.length > mark.length ? [["link", address, [["text", address]]], at + address.length] : null;
  }
  const isWord = (/** @type {string | undefined} */ letter) => /[\p{L}\p{N}]/u.test(letter ?? "");
  if (mark[0] === "_" && isWord(text[at - 1])) return null; // snake_case
  if (!text[start] || /\s/.test(text[start])) return null;
  let end = text.indexOf(mark, start + 1);
  while (end > 0 && (/\s/.test(text[end - 1]) || (mark[0] === "_" && isWord(text[end + mark.length]))))
    end = text.indexOf(mark, end + 1);
  if (end < 0) return null;
  return [
    [mark.length === 2 ? "strong" : "em", piecesOf(text.slice(start, end), depth + 1)],
    end + mark.length,
  ];
}
