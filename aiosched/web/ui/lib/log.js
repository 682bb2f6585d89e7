// A log of any length, read in blocks of about 128 kB: first the line index, then only the blocks in view.
// The server searches it for errors and text.
import { call, get } from "./api.js";

const CACHE_SIZE = 4 << 20; // bytes of cached blocks
const OFFSET = 0;
const LINE = 1;
const SIZE = 2;
const LINES = 3; // these index a block

/**
 * A line as a terminal shows it: text after a carriage return overwrites the text before it.
 * @param {string} line
 */
const printed = (line) => (line.includes("\r") ? line.replace(/\r$/, "").replace(/^.*\r/, "") : line);

/**
 * @param {Uint8Array} bytes
 * @param {number} count
 */
const linesOf = (bytes, count) => {
  const lines = new TextDecoder().decode(bytes).split("\n");
  if (lines.length > count) lines.length = count; // drop the empty piece after the final newline
  return lines.map(printed);
};

export class LogFile {
  /** @type {Api["LogBlocks"]["blocks"]} */
  blocks = [];
  size = 0; // bytes
  complete = false; // the task writes no more to it
  /** @type {Map<number, { size: number, lines: string[] }>} cached blocks, most recently used last */
  cache = new Map();
  cachedBytes = 0;

  /**
   * @param {string} path API path
   * @param {object} params such as `map_index`
   * @param {AbortSignal} signal aborts all requests
   */
  constructor(path, params, signal) {
    this.path = path;
    this.params = params;
    this.signal = signal;
  }

  /** The number of indexed lines. */
  get lines() {
    const last = this.blocks.at(-1);
    return last ? last[LINE] + last[LINES] : 0;
  }

  /**
   * Extend the index by what was written since, from its last block on. True if something changed.
   * @returns {Promise<boolean>}
   */
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
        Object.assign(this, { blocks: [], size: 0, cachedBytes: 0 });
        this.cache.clear();
        return this.refresh();
      } // the file was rewritten
      this.blocks = this.blocks.filter((block) => block[OFFSET] < from[OFFSET]);
      this.blocks.push(...found.blocks);
      this.size = found.size;
      this.complete = found.complete;
      if (found.next === null) break;
      from = [found.next, this.lines];
    }
    return before !== `${this.size} ${this.complete}`;
  }

  /**
   * The number of the block that contains a line.
   * @param {number} line
   */
  blockOf(line) {
    return Math.max(
      this.blocks.findLastIndex((block) => block[LINE] <= line),
      0,
    );
  }

  /**
   * The text of a line if its block is cached; if undefined, call `load(blockOf(line))` first.
   * @param {number} line
   */
  peek(line) {
    const number = this.blockOf(line);
    const one = this.cache.get(number);
    return one &&
      (one.size === this.blocks[number][SIZE] || line - this.blocks[number][LINE] < one.lines.length - 1)
      ? one.lines[line - this.blocks[number][LINE]]
      : undefined;
  }

  /**
   * Read a block unless its current content is cached.
   * @param {number} number
   */
  async load(number) {
    const block = this.blocks[number];
    const cached = this.cache.get(number);
    if (!block || cached?.size === block[SIZE]) {
      if (cached) {
        this.cache.delete(number);
        this.cache.set(number, cached);
      }
      return;
    }
    const bytes = await this.read(block[OFFSET], block[SIZE]);
    if (cached) this.cachedBytes -= cached.size;
    this.cache.delete(number);
    this.cache.set(number, { size: block[SIZE], lines: linesOf(bytes, block[LINES]) });
    this.cachedBytes += block[SIZE];
    for (const [oldest, one] of this.cache) {
      if (this.cachedBytes <= CACHE_SIZE || oldest === number) break;
      this.cache.delete(oldest);
      this.cachedBytes -= one.size;
    }
  }

  /**
   * @param {number} offset
   * @param {number} limit in bytes
   */
  async read(offset, limit) {
    const response = await call("GET", this.path, {
      params: { ...this.params, offset, limit },
      headers: { Accept: "text/plain" },
      raw: true,
      signal: this.signal,
    });
    return new Uint8Array(await response.arrayBuffer());
  }

  /**
   * The next line that contains some text, ignoring case; null if there is none.
   * @param {string} words
   * @param {number} line where to start
   * @param {number} step 1: after it; -1: before it
   * @param {AbortSignal} stop
   * @returns {Promise<number | null>}
   */
  async search(words, line, step, stop) {
    const where = step > 0 ? { after: line } : { before: Math.max(line, 0) };
    return (await get(`${this.path}/search`, { ...this.params, words, ...where }, { signal: stop })).line;
  }

  /** The lines where errors begin. */
  async errors() {
    return (await get(`${this.path}/errors`, this.params, { signal: this.signal })).lines;
  }
}
