// A log of any length, read in blocks of about 128 kB: the index of the lines first, then only what is looked at.
// The server finds errors and words in it.
import { call, get } from "./api.js";

const KEPT = 4 << 20; // bytes of blocks that are kept
const OFFSET = 0;
const LINE = 1;
const SIZE = 2;
const LINES = 3; // of a block

/** A line as a terminal leaves it: what follows a carriage return is written over what was there. */
const printed = (line) => (line.includes("\r") ? line.replace(/\r$/, "").replace(/^.*\r/, "") : line);

const linesOf = (bytes, count) => {
  const lines = new TextDecoder().decode(bytes).split("\n");
  if (lines.length > count) lines.length = count; // the last one ended
  return lines.map(printed);
};

export class LogFile {
  /** @type {Api["LogBlocks"]["blocks"]} */
  blocks = [];
  size = 0; // bytes
  complete = false; // its task writes nothing more
  /** @type {Map<number, { size: number, lines: string[] }>} blocks that are here, the latest used last */
  known = new Map();
  kept = 0; // bytes of them

  /**
   * @param {string} path of the API
   * @param {object} params such as `map_index`
   * @param {AbortSignal} signal ends everything
   */
  constructor(path, params, signal) {
    this.path = path;
    this.params = params;
    this.signal = signal;
  }

  /** How many lines are known. */
  get lines() {
    const last = this.blocks.at(-1);
    return last ? last[LINE] + last[LINES] : 0;
  }

  /** Read what was written since: the index goes on from its last block. True when something has changed. */
  async refresh() {
    const before = `${this.size} ${this.complete}`;
    let from = this.blocks.at(-1) || [0, 0];
    for (;;) {
      const found = await get(
        `${this.path}/blocks`,
        { ...this.params, offset: from[OFFSET], line: from[LINE] },
        { signal: this.signal },
      );
      if (found.size < this.size) {
        Object.assign(this, { blocks: [], size: 0, kept: 0 });
        this.known.clear();
        return this.refresh();
      } // written anew
      this.blocks = this.blocks.filter((block) => block[OFFSET] < from[OFFSET]);
      this.blocks.push(...found.blocks);
      this.size = found.size;
      this.complete = found.complete;
      if (found.next === null) break;
      from = [found.next, this.lines];
    }
    return before !== `${this.size} ${this.complete}`;
  }

  /** The number of the block that holds a line. */
  blockOf(line) {
    return Math.max(
      this.blocks.findLastIndex((block) => block[LINE] <= line),
      0,
    );
  }

  /** The text of a line if its block is here; undefined: `load(blockOf(line))` first. */
  peek(line) {
    const number = this.blockOf(line);
    const one = this.known.get(number);
    return one &&
      (one.size === this.blocks[number][SIZE] || line - this.blocks[number][LINE] < one.lines.length - 1)
      ? one.lines[line - this.blocks[number][LINE]]
      : undefined;
  }

  /** Read a block, if it is not here as it is now. */
  async load(number) {
    const block = this.blocks[number];
    const here = this.known.get(number);
    if (!block || here?.size === block[SIZE]) {
      if (here) {
        this.known.delete(number);
        this.known.set(number, here);
      }
      return;
    }
    const bytes = await this.read(block[OFFSET], block[SIZE]);
    if (here) this.kept -= here.size;
    this.known.delete(number);
    this.known.set(number, { size: block[SIZE], lines: linesOf(bytes, block[LINES]) });
    this.kept += block[SIZE];
    for (const [oldest, one] of this.known) {
      if (this.kept <= KEPT || oldest === number) break;
      this.known.delete(oldest);
      this.kept -= one.size;
    }
  }

  async read(offset, limit) {
    const answer = await call("GET", this.path, {
      params: { ...this.params, offset, limit },
      headers: { Accept: "text/plain" },
      raw: true,
      signal: this.signal,
    });
    return new Uint8Array(await answer.arrayBuffer());
  }

  /**
   * The next line that holds some words, whatever their case; null when there is none.
   * @param {string} words
   * @param {number} line where it begins
   * @param {number} step 1: behind it; -1: before it
   * @param {AbortSignal} stop
   * @returns {Promise<number | null>}
   */
  async search(words, line, step, stop) {
    const where = step > 0 ? { after: line } : { before: Math.max(line, 0) };
    return (await get(`${this.path}/search`, { ...this.params, words, ...where }, { signal: stop })).line;
  }

  /** The lines in which errors begin. */
  async errors() {
    return (await get(`${this.path}/errors`, this.params, { signal: this.signal })).lines;
  }
}
