// The state of a log view: scrolling in pixels of the whole log, loading visible blocks, polling for more.
import { LogFile } from "../../lib/log.js";
import { query, setQuery } from "../../lib/router.js";

export const ROW = 18; // height of a line, in pixels

const MAX_HEIGHT = 6_000_000; // pixels that browsers scroll reliably; longer logs are scaled

const POLL = { least: 500, most: 1500, growth: 1.25 }; // milliseconds: soon after a change, later while it is quiet

/** The state of a log view: scrolling in pixels of the whole log, loading visible blocks, polling for more. */
export class Viewer {
  /** @type {HTMLElement | null} the element that shows it */
  box = null;
  view = 480; // height of that element, in pixels
  top = 0; // scroll position in the whole log, in pixels
  moved = false; // the element has not been scrolled yet
  follow = false; // keep the end of the log in view
  ready = false;
  /** @type {number[]} lines where errors begin */
  errors = [];
  /** @type {Problem | null} why the log could not be loaded */
  error = null;
  /** @type {Problem | null} why what is shown may be old: reading on is tried again */
  outage = null;
  polling = false;
  /** @type {AbortController | null} */
  searching = null;
  status = ""; // of the search

  /**
   * @param {string} path API path
   * @param {object} params
   * @param {{ running: boolean, failed: boolean }} task when the page was opened
   * @param {() => void} redraw
   */
  constructor(path, params, task, redraw) {
    this.task = task;
    this.abort = new AbortController();
    this.file = new LogFile(path, params, this.abort.signal);
    this.redraw = redraw;
  }

  get tall() {
    return this.file.lines * ROW + (query.value.wrap ? this.view - ROW : 0);
  }
  get most() {
    return Math.max(this.tall - this.view, 0);
  }
  get height() {
    return Math.min(this.tall, MAX_HEIGHT);
  }
  get scale() {
    return this.height > this.view ? this.most / (this.height - this.view) : 1;
  }
  get first() {
    return Math.floor(this.top / ROW);
  }

  /** Load the log and start at its most useful place: the line in the URL, the last error, or the end. Then poll. */
  async open() {
    await this.readOn();
    this.keepUp();
  }

  /** Poll until the log is complete, and nothing is left that failed. */
  async keepUp() {
    if (this.polling) return;
    this.polling = true;
    let pause = POLL.least;
    while (!this.error && (this.outage || !this.file.complete)) {
      await new Promise((done) => setTimeout(done, pause));
      if (this.abort.signal.aborted) return;
      pause = Math.min(pause * POLL.growth, POLL.most);
      if (!document.hidden && (await this.readOn())) pause = POLL.least;
    }
    this.polling = false;
  }

  /** Read what was written since; whether there was something. */
  async readOn() {
    const { running, failed } = this.task;
    try {
      const changed = await this.file.refresh();
      if (this.ready && !this.outage && !changed) return false;
      const isFirst = !this.ready;
      this.ready = true;
      this.outage = null;
      if (isFirst && Number(query.value.line)) this.show(Number(query.value.line) - 1);
      else if (isFirst ? running : this.follow) this.toEnd();
      this.redraw();
      if (isFirst || this.file.complete) await this.findErrors();
      if (isFirst && failed && !query.value.line && this.top === 0) this.nextError(-1, this.file.lines);
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /**
   * Show why something could not be read. The lines stay if it may work later.
   * @param {Problem} error
   */
  fail(error) {
    if (error.name === "AbortError") return;
    if (error.isPassing) {
      this.outage = error;
      this.keepUp();
    } else this.error = error;
    this.redraw();
  }

  async findErrors() {
    this.errors = await this.file.errors();
    this.redraw();
  }

  /** @param {number} top */
  scrollTo(top) {
    this.top = Math.max(0, Math.min(top, this.most));
    this.moved = true; // the element is scrolled after rendering, once it has its new height
    this.redraw();
  }
  toEnd() {
    this.follow = !this.file.complete;
    this.scrollTo(Infinity);
  }
  /** @param {number} pixels */
  move(pixels) {
    if (pixels < 0) this.follow = false;
    this.scrollTo(this.top + pixels);
  }
  /** @param {number} line */
  show(line) {
    this.follow = false;
    this.scrollTo((line - Math.floor(this.view / ROW / 3)) * ROW);
  }

  drawn() {
    if (!this.moved || !this.box) return;
    this.moved = false;
    this.box.scrollTop = this.top / this.scale;
  }

  scrolled() {
    // by scroll bar, touch or keyboard; positions close to our own were set by us
    if (!this.box) return;
    this.view = this.box.clientHeight;
    if (this.moved) return;
    if (Math.abs(this.box.scrollTop - Math.min(this.top, this.most) / this.scale) < 1.5) return;
    this.top = Math.min(this.box.scrollTop * this.scale, this.most);
    this.follow = !this.file.complete && this.top >= this.most - ROW;
    this.redraw();
  }

  /** Load the blocks of the visible lines. */
  async fill() {
    if (this.outage) return;
    const { file } = this;
    const last = Math.min(this.first + Math.ceil(this.view / ROW) + 1, file.lines - 1);
    if (last < 0) return;
    for (let number = file.blockOf(this.first); number <= file.blockOf(last); number++) {
      if (file.cache.get(number)?.size === file.blocks[number][2]) continue;
      await file.load(number);
      this.redraw();
    }
  }

  /**
   * Select a line: put it into the URL and show it.
   * @param {number} line
   */
  choose(line) {
    setQuery({ line: line + 1 });
    this.show(line);
  }

  /**
   * @param {number} step 1: the next error; -1: the previous one
   * @param {number} [from] a line
   */
  nextError(step, from = Number(query.value.line) - 1 || this.first) {
    if (!this.errors.length) return;
    const next =
      step > 0 ? this.errors.find((line) => line > from) : this.errors.findLast((line) => line < from);
    this.choose(next ?? this.errors[step > 0 ? 0 : this.errors.length - 1]);
  }

  /**
   * Search from the selected line on, and continue from the other end if there is no match.
   * @param {string} words
   * @param {number} step
   */
  async search(words, step) {
    this.searching?.abort();
    const stop = (this.searching = new AbortController());
    this.status = words ? "searching …" : "";
    this.redraw();
    if (!words) return;
    const from = Number(query.value.line)
      ? Number(query.value.line) - 1
      : step > 0
        ? this.first - 1
        : this.first;
    try {
      let line = await this.file.search(words, from, step, stop.signal);
      this.status = "";
      if (line === null) {
        line = await this.file.search(words, step > 0 ? -1 : this.file.lines, step, stop.signal);
        this.status =
          line === null ? "not found" : step > 0 ? "continued from the top" : "continued from the end";
      }
      if (line !== null) this.choose(line);
    } catch (error) {
      if (error.name === "AbortError") return; // aborted by the next search
      this.status = error.message;
    }
    this.redraw();
  }

  end() {
    this.abort.abort();
    this.searching?.abort();
  }
}
