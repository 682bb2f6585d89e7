// The log of a try: only the lines in view are drawn, so that 200 MB scroll like 2 kB; search, errors, following, colours.
import { classes, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { apiUrl } from "../lib/api.js";
import { LogFile } from "../lib/log.js";
import { pieces } from "../lib/ansi.js";
import { useKey } from "../lib/keys.js";
import { here, href, query, setQuery } from "../lib/router.js";
import { Empty, Failure, Loading } from "./basics.js";

const ROW = 18; // pixels of a line
const LEAST = 300; // pixels of the view, however little room is left
const TALLEST = 6_000_000; // pixels that browsers scroll well; longer logs are scaled
const LONGEST = 20_000; // characters of a line that are shown
const AGAIN = 1500; // milliseconds between looks at a log that grows
const BAD = /^Traceback \(most recent call last\)|\b(ERROR|CRITICAL|FATAL)\b|^\w*(Error|Exception): /;
const ODD = /\b(WARN|WARNING)\b/;

export const bytes = (n) =>
  n < 1000
    ? `${n} B`
    : n < 1e6
      ? `${(n / 1e3).toFixed(1)} kB`
      : n < 1e9
        ? `${(n / 1e6).toFixed(1)} MB`
        : `${(n / 1e9).toFixed(2)} GB`;

/** `text` with what was searched for marked. */
function marked(text, words) {
  if (!words) return text;
  const found = [];
  const low = text.toLowerCase();
  const wanted = words.toLowerCase();
  let at = 0;
  for (let hit = low.indexOf(wanted); hit >= 0; hit = low.indexOf(wanted, at)) {
    found.push(text.slice(at, hit), html`<mark>${text.slice(hit, hit + wanted.length)}</mark>`);
    at = hit + wanted.length;
  }
  return found.length ? [...found, text.slice(at)] : text;
}

function Line({ number, text, words, chosen, onChoose }) {
  const cut = text?.length > LONGEST;
  const shown =
    text === undefined ? html`
      <span class="skeleton" />
    ` : (
      pieces(cut ? text.slice(0, LONGEST) : text).map(({ text: part, look, style }) =>
        look ? html`
          <span class=${look} style=${style}>
            ${marked(part, words)}
          </span>
        ` : (
          marked(part, words)
        ),
      )
    );
  const level = text && (BAD.test(text) ? "bad" : ODD.test(text) && "odd");
  return html`
    <div class=${classes("line", level, chosen && "chosen")} data-line=${number + 1}>
      <a
        class="no"
        tabindex="-1"
        href=${href(`${here.value.path}?${new URLSearchParams({ ...query.value, line: number + 1 })}`)}
        onClick=${(e) => {
          e.preventDefault();
          onChoose(number);
        }}
      >
        ${number + 1}
      </a>
      <span class="text">
        ${shown}
        ${cut && html`<em> … ${(text.length - LONGEST).toLocaleString("en")} characters more in the download</em>`}
      </span>
    </div>
  `;
}

/** What the view does: scrolling in pixels of the whole log, reading what is in view, looking for more. */
class Viewer {
  constructor(path, params, redraw) {
    this.abort = new AbortController();
    this.file = new LogFile(path, params, this.abort.signal);
    Object.assign(this, {
      path,
      params,
      redraw,
      top: 0,
      follow: false,
      box: null,
      view: 480,
      moved: false,
      errors: [],
      error: null,
      ready: false,
      searching: null,
      told: "",
    });
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
    const next = step > 0 ? this.errors.find((line) => line > from) : this.errors.findLast((line) => line < from);
    this.choose(next ?? this.errors.at(step > 0 ? 0 : -1));
  }

  /** Look for words from the chosen line on, and from the other end when there are none. */
  async search(words, step) {
    this.searching?.abort();
    const stop = (this.searching = new AbortController());
    this.told = words ? "searching …" : "";
    this.redraw();
    if (!words) return;
    const from = Number(query.value.line) ? Number(query.value.line) - 1 : step > 0 ? this.first - 1 : this.first;
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

/** `path` of the log in the API; `running`: follow it; `failed`: begin at the last error. */
export function LogView({ path, params, name, running = false, failed = false }) {
  const [, redraw] = useState(0);
  const [words, setWords] = useState("");
  const box = useRef(null);
  const field = useRef(null);
  const key = apiUrl(path, params);
  const viewer = useMemo(() => new Viewer(path, params, () => redraw((n) => n + 1)), [key]);
  const current = useRef(null); // keys are bound once
  current.current = viewer;
  useEffect(() => {
    viewer.open({ running, failed });
    return () => viewer.end();
  }, [viewer]);
  useEffect(() => {
    if (!box.current) return undefined;
    const pane = box.current;
    const fit = () => {
      const room = innerHeight - pane.getBoundingClientRect().top - scrollY - 24;
      pane.style.height = room >= LEAST ? `${room}px` : "";
    }; // the end of the log in view where that leaves enough of it
    fit();
    addEventListener("resize", fit);
    viewer.box = pane;
    viewer.view = pane.clientHeight;
    const look = new ResizeObserver(() => {
      viewer.view = pane.clientHeight;
      if (viewer.follow) viewer.toEnd();
      else viewer.redraw();
    });
    look.observe(pane);
    const wheel = (e) => {
      // scaled logs would fly by
      if (e.ctrlKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return;
      const by = e.deltaY * (e.deltaMode === 1 ? ROW : 1);
      if (viewer.scale <= 1.001) {
        if (by < 0) viewer.follow = false;
        return;
      }
      if (by < 0 ? viewer.top <= 0 : viewer.top >= viewer.most) return;
      e.preventDefault();
      viewer.move(by);
    };
    pane.addEventListener("wheel", wheel, { passive: false });
    if (viewer.follow) viewer.toEnd();
    else if (viewer.top) viewer.scrollTo(viewer.top);
    return () => {
      look.disconnect();
      removeEventListener("resize", fit);
      pane.removeEventListener("wheel", wheel);
    };
  }, [viewer, viewer.ready && viewer.file.lines > 0]);
  useLayoutEffect(() => viewer.drawn());
  useEffect(() => {
    const due = setTimeout(() => viewer.fill().catch((error) => viewer.fail(error)), 30);
    return () => clearTimeout(due);
  });
  const jump = (step) => current.current.nextError(step);
  useKey("e", "next error in the log", () => jump(1));
  useKey("w", "wrap long lines of the log", () => setQuery({ wrap: query.value.wrap ? null : 1 }));
  useKey("f", "search in the log", () => field.current?.focus());

  if (viewer.error)
    return html`
      <${Failure}
        error=${viewer.error}
        retry=${() => {
          viewer.error = null;
          viewer.open({ running, failed });
        }}
      />
    `;
  if (!viewer.ready)
    return html`
      <div style=${{ padding: "14px 16px" }}>
        <${Loading} lines=${8} />
      </div>
    `;
  const { file } = viewer;
  if (!file.lines)
    return html`
      <${Empty} title=${file.complete ? "This try wrote nothing" : "Nothing is written yet"}>
        ${file.complete ? "What a task prints or logs stands here." : "Lines appear here as the task writes them."}
      <//>
    `;
  const wrap = Boolean(query.value.wrap);
  const chosen = Number(query.value.line) - 1;
  const count = Math.min(Math.ceil(viewer.view / ROW) + 2, file.lines - viewer.first);
  const keys = (e) => {
    const by = {
      ArrowDown: ROW,
      ArrowUp: -ROW,
      PageDown: viewer.view - ROW,
      PageUp: ROW - viewer.view,
      " ": viewer.view - ROW,
      Home: -Infinity,
      End: Infinity,
    }[e.key];
    if (by === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    if (by === Infinity) viewer.toEnd();
    else viewer.move(by);
  };
  const search = (step) => viewer.search(words.trim(), step);
  return html`
    <div class="log">
      <div class="bar row">
        <form
          class="row"
          role="search"
          onSubmit=${(e) => {
            e.preventDefault();
            search(1);
          }}
        >
          <input
            class="input"
            type="search"
            ref=${field}
            placeholder="Search the log"
            aria-label="Search the log"
            value=${words}
            onInput=${(e) => {
              setWords(e.target.value);
              viewer.told = "";
            }}
            onKeyDown=${(e) => {
              if (e.key === "Enter" && e.shiftKey) {
                e.preventDefault();
                search(-1);
              }
            }}
          />
          <button
            type="button"
            class="button small"
            disabled=${!words.trim()}
            onClick=${() => search(-1)}
            aria-label="Search upwards"
          >
            ↑
          </button>
          <button class="button small" disabled=${!words.trim()} aria-label="Search downwards">
            ↓
          </button>
          <span class="faint" role="status">
            ${viewer.told}
          </span>
        </form>
        ${viewer.errors.length > 0 && html`
          <span class="row near">
            <button class="button small danger" onClick=${() => jump(-1)} aria-label="Error before">
              ↑
            </button>
            <button class="button small danger" onClick=${() => jump(1)} title="Jump to the next error (e)">
              ${viewer.errors.length === 1000 ? "1000+" : viewer.errors.length}${" "}
              ${viewer.errors.length === 1 ? "error" : "errors"} ↓
            </button>
          </span>
        `}
        <span class="push faint tabular">
          ${file.lines.toLocaleString("en")} ${file.lines === 1 ? "line" : "lines"} · ${bytes(file.size)}
        </span>
        ${!file.complete && html`
          <button
            class="button small"
            aria-pressed=${viewer.follow}
            onClick=${() => {
              if (viewer.follow) {
                viewer.follow = false;
                viewer.redraw();
              } else viewer.toEnd();
            }}
          >
            ${viewer.follow ? "Following" : "Follow"}
          </button>
        `}
        <button
          class="button small"
          aria-pressed=${wrap}
          onClick=${() => setQuery({ wrap: wrap ? null : 1 })}
          title="Wrap long lines (w)"
        >
          Wrap
        </button>
        <a class="button small" href=${key} download=${name} data-external>
          Download
        </a>
      </div>
      <div
        class=${classes("pane", wrap && "wrap")}
        style=${wrap ? undefined : { maxHeight: `${file.lines * ROW + 18}px` }}
        ref=${box}
        tabindex="0"
        role="region"
        aria-label="Log"
        onScroll=${() => viewer.scrolled()}
        onKeyDown=${keys}
      >
        <div style=${{ height: `${viewer.height}px`, minWidth: "100%", width: wrap ? "auto" : "max-content" }}>
          <div class="window" style=${{ height: `${Math.min(viewer.view, viewer.height)}px` }}>
            <div style=${{ marginTop: `${-(viewer.top % ROW)}px` }}>
              ${Array.from({ length: Math.max(count, 0) }, (_, i) => viewer.first + i).map((n) => html`
                <${Line}
                  key=${n}
                  number=${n}
                  text=${file.peek(n)}
                  words=${words.trim()}
                  chosen=${n === chosen}
                  onChoose=${(line) => setQuery({ line: line + 1 })}
                />
              `)}
            </div>
          </div>
        </div>
      </div>
    </div>
  `;
}
