// Python syntax highlighting: comments, strings, keywords, decorators, numbers, defined names. No DOM here.

const KEYWORDS = new Set(
  `and as assert async await break class continue def del elif else except finally for from global if
  import in is lambda match case nonlocal not or pass raise return try while with yield None True
  False`.split(/\s+/),
);
const STRING = /(?:[rRbBfFuU]{0,2})("""|'''|"|')/y;
const WORD = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /\d[\d_.xXeEjJa-fA-F]*/y;
const DECORATOR = /@[\p{L}_][\p{L}\p{N}_.]*/uy;

/**
 * The lines of a source, each a list of `[kind, text]`; kinds: "comment", "string", "keyword", "decorator", "number",
 * "name" or "".
 * @param {string} source
 */
export function highlight(source) {
  /** @type {[string, string][]} */
  let line = [];
  const lines = [line];
  /**
   * @param {string} kind
   * @param {string} text
   */
  const put = (kind, text) => {
    const parts = text.split("\n");
    parts.forEach((part, i) => {
      if (i) lines.push((line = []));
      if (!part) return;
      const before = line.at(-1);
      if (before && before[0] === kind) before[1] += part;
      else line.push([kind, part]);
    });
  };
  /**
   * @param {RegExp} pattern
   * @param {number} at
   */
  const take = (pattern, at) => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  let at = 0;
  let before = "";
  while (at < source.length) {
    const c = source[at];
    let found;
    if (c === "#") {
      const end = source.indexOf("\n", at);
      found = source.slice(at, end < 0 ? source.length : end);
      put("comment", found);
    } else if ((found = take(STRING, at)?.[0])) {
      found = source.slice(at, endOfString(source, at + found.length, found));
      put("string", found);
    } else if ((found = take(WORD, at)?.[0])) {
      put(KEYWORDS.has(found) ? "keyword" : before === "def" || before === "class" ? "name" : "", found);
      before = found;
    } else if (
      c === "@" &&
      /(^|\n)[ \t]*$/.test(source.slice(Math.max(0, at - 80), at)) &&
      (found = take(DECORATOR, at)?.[0])
    ) {
      put("decorator", found);
    } else if ((found = take(NUMBER, at)?.[0])) {
      put("number", found);
    } else {
      found = c;
      put("", c);
      if (c !== " ") before = "";
    }
    at += found.length;
  }
  return lines;
}

/**
 * @param {string} source
 * @param {number} from
 * @param {string} opening
 */
function endOfString(source, from, opening) {
  const quote = opening.replace(/^[rRbBfFuU]+/, "");
  for (let at = from; at < source.length; at++) {
    if (source[at] === "\\") at++;
    else if (source.startsWith(quote, at)) return at + quote.length;
    else if (source[at] === "\n" && quote.length === 1) return at;
  }
  return source.length;
}
