// Terminal colours in logs: a line becomes pieces of text with class names; other escapes are left out. Text stays text.

const ESCAPE = /\x1b(?:\[([\d;]*)m|\[[\d;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g; // eslint-disable-line no-control-regex

/** The line as text alone. */
export const plain = (line) => line.includes("\x1b") ? line.replace(ESCAPE, "") : line;

/** Pieces `{text, look}` of a line; `look` are class names or "". Every line begins without colour. */
export function pieces(line) {
  if (!line.includes("\x1b")) return [{ text: line, look: "" }];
  const found = [];
  let at = 0, now = {};
  const put = (text) => { if (text) found.push({ text, look: lookOf(now) }); };
  for (const escape of line.matchAll(ESCAPE)) {
    put(line.slice(at, escape.index));
    at = escape.index + escape[0].length;
    if (escape[1] !== undefined) now = changed(now, escape[1]);
  }
  put(line.slice(at));
  return found;
}

const lookOf = ({ bold, fore, back }) => [bold && "bold", fore !== undefined && `fore-${fore}`, back !== undefined && `back-${back}`].filter(Boolean).join(" ");

function changed(before, codes) {
  const now = { ...before };
  const list = codes.split(";").map(Number);
  for (let i = 0; i < list.length; i++) {
    const code = list[i];
    if (code === 0) { delete now.bold; delete now.fore; delete now.back; }
    else if (code === 1) now.bold = true;
    else if (code === 22) delete now.bold;
    else if (code >= 30 && code <= 37) now.fore = code - 30;
    else if (code >= 90 && code <= 97) now.fore = code - 82;
    else if (code >= 40 && code <= 47) now.back = code - 40;
    else if (code >= 100 && code <= 107) now.back = code - 92;
    else if (code === 39) delete now.fore;
    else if (code === 49) delete now.back;
    else if (code === 38 || code === 48) { // of 256 or of all colours: the first 16 are known, the others are left out
      const wide = list[i + 1] === 5 ? 2 : 4;
      if (wide === 2 && list[i + 2] < 16) now[code === 38 ? "fore" : "back"] = list[i + 2];
      i += wide;
    }
  }
  return now;
}
