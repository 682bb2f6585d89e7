// Unified diffs: made of two texts, and read as rows with line numbers.

/**
 * A line of a diff; `before` and `after` are its numbers in the two texts, `line` has the sign in front, `text` not.
 * @typedef {number | ""} Numbered
 * @typedef {{ kind: "" | "plus" | "minus" | "hunk", before: Numbered, after: Numbered, number: Numbered, line: string,
 *   text: string }} Row
 */

const MOST = 4_000_000; // cells of the table that finds what two texts have in common

/**
 * The rows of a unified diff.
 * @param {string} diff
 * @returns {Row[]}
 */
export function rowsOf(diff) {
  let one = 1;
  let two = 1;
  return diff.split("\n").map((line) => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      one = Number(hunk[1]);
      two = Number(hunk[2]);
    }
    const text = line.slice(1);
    if (hunk || line.startsWith("---") || line.startsWith("+++"))
      return { kind: "hunk", before: "", after: "", number: "", line, text: line };
    if (line.startsWith("+")) return { kind: "plus", before: "", after: two, number: two++, line, text };
    if (line.startsWith("-")) return { kind: "minus", before: one, after: "", number: one++, line, text };
    return { kind: "", before: one++, after: two, number: two++, line, text };
  });
}

/**
 * What stands beside each other: lines that were replaced beside those that replace them.
 * @param {Row[]} rows
 * @returns {[Row | null, Row | null][]}
 */
export function pairsOf(rows) {
  /** @type {[Row | null, Row | null][]} */
  const pairs = [];
  /** @type {Row[]} */
  let gone = [];
  /** @type {Row[]} */
  let added = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, added.length); i++)
      pairs.push([gone[i] ?? null, added[i] ?? null]);
    gone = [];
    added = [];
  };
  for (const row of rows) {
    if (row.kind === "minus") gone.push(row);
    else if (row.kind === "plus") added.push(row);
    else {
      flush();
      pairs.push([{ ...row, number: row.before }, row]);
    }
  }
  flush();
  return pairs;
}

/**
 * The unified diff of two short texts, with all of their lines.
 * @param {string} before
 * @param {string} after
 */
export function diffOf(before, after) {
  const [one, two] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < one.length && start < two.length && one[start] === two[start]) start++;
  let end = 0;
  while (end < Math.min(one.length, two.length) - start && one.at(-1 - end) === two.at(-1 - end)) end++;
  const same = (/** @type {string} */ line) => ` ${line}`;
  return [
    ...one.slice(0, start).map(same),
    ...middleOf(one.slice(start, one.length - end), two.slice(start, two.length - end)),
    ...one.slice(one.length - end).map(same),
  ].join("\n");
}

/**
 * @param {string[]} one
 * @param {string[]} two
 */
function middleOf(one, two) {
  const [gone, added] = [one.map((line) => `-${line}`), two.map((line) => `+${line}`)];
  if (one.length * two.length > MOST) return [...gone, ...added];
  const width = two.length + 1;
  const common = new Uint32Array((one.length + 1) * width); // of what follows each pair of lines
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = two.length - 1; j >= 0; j--)
      common[i * width + j] =
        one[i] === two[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < one.length && j < two.length) {
    if (one[i] === two[j]) {
      lines.push(` ${one[i++]}`);
      j++;
    } else lines.push(common[(i + 1) * width + j] >= common[i * width + j + 1] ? gone[i++] : added[j++]);
  }
  return [...lines, ...gone.slice(i), ...added.slice(j)];
}
