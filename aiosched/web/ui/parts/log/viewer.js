// What the view of a log does: scrolling in pixels of the whole log, reading what is in view, looking for more.
import { LogFile } from "../../lib/log.js";
import { query, setQuery } from "../../lib/router.js";

export const ROW = 18; // pixels of a line

const TALLEST = 6_000_000; // pixels that browsers scroll well; longer logs are scaled

const AGAIN = 1500; // milliseconds between looks at a log that grows

/** What the view does: scrolling in pixels of the whole log, reading what is in view, looking for more. */
export class Viewer {
  /** @type {HTMLElement | null} the element that shows it */
  box = null;
  view = 480; // pixels of that element
  top = 0; // pixels of the log above it
  moved = false; // the element has not followed yet
  follow = false; // the end of the log stays in view
  ready = false;
  /** @type {number[]} lines in which errors begin */
  errors = [];
  /** @type {Error | null} why there is no log */
  error = null;
  /** @type {AbortController | null} */
  searching = null;
  told = ""; // words about the search

  /**
   * @param {string} path of the API
   * @param {object} params
   * @param {() => void} redraw
   */
  constructor(path, params, redraw) {
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
    return Math.min(this.tall, TALLEST);
  }
  get scale() {
    return this.height > this.view ? this.most / (this.height - this.view) : 1;
  }
  get first() {
    return Math.floor(this.top / ROW);
  }

  /** Read the index and begin where it is most useful: at the line of the address, the error, or the end. */
  async open({ running, failed }) {
    try {
      await this.file.refresh();
      this.ready = true;
      this.redraw();
      if (Number(query.value.line)) this.show(Number(query.value.line) - 1);
      else if (running) this.toEnd();
      await this.findErrors();
      if (failed && !query.value.line && this.top === 0) this.nextError(-1, this.file.lines);
      while (!this.file.complete) {
        await new Promise((done) => setTimeout(done, AGAIN));
        if (this.abort.signal.aborted) return;
        if (!document.hidden && (await this.file.refresh())) {
          if (this.follow) this.toEnd();
          this.redraw();
          if (this.file.complete) await this.findErrors();
        }
      }
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.error = error;
    this.redraw();
  }

  async findErrors() {
    this.errors = await this.file.errors();
    this.redraw();
  }

  scrollTo(top) {
    this.top = Math.max(0, Math.min(top, this.most));
    this.moved = true; // the box follows when it is drawn: only then it is as tall as the log
    this.redraw();
  }
  toEnd() {
    this.follow = !this.file.complete;
    this.scrollTo(Infinity);
  }
  move(pixels) {
    if (pixels < 0) this.follow = false;
    this.scrollTo(this.top + pixels);
  }
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
    // by the bar, a finger or a key of the browser; what we set ourselves is near
    if (!this.box) return;
    this.view = this.box.clientHeight;
    if (this.moved) return;
    if (Math.abs(this.box.scrollTop - Math.min(this.top, this.most) / this.scale) < 1.5) return;
    this.top = Math.min(this.box.scrollTop * this.scale, this.most);
    this.follow = !this.file.complete && this.top >= this.most - ROW;
    this.redraw();
  }

  /** Read the blocks of the lines in view. */
  async fill() {
    const { file } = this;
    const last = Math.min(this.first + Math.ceil(this.view / ROW) + 1, file.lines - 1);
    if (last < 0) return;
    for (let number = file.blockOf(this.first); number <= file.blockOf(last); number++) {
      if (file.known.get(number)?.size === file.blocks[number][2]) continue;
      await file.load(number);
      this.redraw();
    }
  }

  /** Choose a line: it stands in the address, and is shown. */
  choose(line) {
    setQuery({ line: line + 1 });
    this.show(line);
  }

  nextError(step, from = Number(query.value.line) - 1 || this.first) {
    if (!this.errors.length) return;
    const next =
      step > 0 ? this.errors.find((line) => line > from) : this.errors.findLast((line) => line < from);
    this.choose(next ?? this.errors.at(step > 0 ? 0 : -1));
  }

  /** Look for words from the chosen line on, and from the other end when there are none. */
  async search(words, step) {
    this.searching?.abort();
    const stop = (this.searching = new AbortController());
    this.told = words ? "searching …" : "";
    this.redraw();
    if (!words) return;
    const from = Number(query.value.line)
      ? Number(query.value.line) - 1
      : step > 0
        ? this.first - 1
        : this.first;
    try {
      let line = await this.file.search(words, from, step, stop.signal);
      this.told = "";
      if (line === null) {
        line = await this.file.search(words, step > 0 ? -1 : this.file.lines, step, stop.signal);
        this.told = line === null ? "not found" : step > 0 ? "from the top" : "from the end";
      }
      if (line !== null) this.choose(line);
    } catch (error) {
      if (error.name === "AbortError") return; // by the next search
      this.told = error.message;
    }
    this.redraw();
  }

  end() {
    this.abort.abort();
    this.searching?.abort();
  }
}
