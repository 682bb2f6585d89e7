// The toolbar of a log: search, errors, size, follow, wrap, download.
// Plain functions, not components: components rerender only when props change, but the viewer always stays the same.
import { html } from "../../lib/html.js";
import { bytes } from "../../lib/figures.js";
import { query, setQuery } from "../../lib/router.js";
import { Filter } from "../form.js";
import { LEVELS } from "./levels.js";

/** @typedef {import("./viewer.js").Viewer} Viewer */
/** @typedef {Ref<HTMLInputElement | null>} Field */

export const toggleWrap = () => setQuery({ wrap: query.value.wrap ? null : 1 });

/**
 * `address` is the URL of the whole log, `name` the name of the download; `field` is a ref to the search field.
 * @param {{ viewer: Viewer, address: string, name: string, words: string, setWords: (words: string) => void,
 *   field: Field }} props
 */
export function bar({ viewer, address, name, words, setWords, field }) {
  const { file } = viewer;
  return html`
    <div class="bar row">
      ${search({ viewer, words, setWords, field })}
      ${viewer.errors.length > 0 && errors(viewer)}
      <${Filter}
        label="Level"
        value=${query.value.level}
        any="All levels"
        options=${LEVELS}
        onText=${(/** @type {string} */ level) => setQuery({ level })}
      />
      <span class="push faint tabular">
        ${file.lines.toLocaleString("en")} ${file.lines === 1 ? "line" : "lines"} · ${bytes(file.size)}
      </span>
      ${!file.complete && follow(viewer)}
      <button
        class="button small"
        aria-pressed=${Boolean(query.value.wrap)}
        onClick=${toggleWrap}
        title="Wrap long lines (w)"
      >
        Wrap
      </button>
      <a class="button small" href=${address} download=${name} data-external>
        Download
      </a>
    </div>
  `;
}

/** @param {{ viewer: Viewer, words: string, setWords: (words: string) => void, field: Field }} props */
function search({ viewer, words, setWords, field }) {
  /**
   * @param {Event} event
   * @param {number} step 1: the next match; -1: the previous one
   */
  const find = (event, step) => {
    event.preventDefault();
    viewer.search(words.trim(), step);
  };
  /** @param {FieldEvent} event */
  const type = (event) => {
    setWords(event.target.value);
    viewer.status = "";
  };
  return html`
    <form class="row" role="search" onSubmit=${(e) => find(e, 1)}>
      <input
        class="input"
        type="search"
        ref=${field}
        placeholder="Search the log"
        aria-label="Search the log"
        value=${words}
        onInput=${type}
        onKeyDown=${(e) => e.key === "Enter" && e.shiftKey && find(e, -1)}
      />
      <button
        type="button"
        class="button small"
        disabled=${!words.trim()}
        onClick=${(e) => find(e, -1)}
        aria-label="Previous match"
      >
        ↑
      </button>
      <button class="button small" disabled=${!words.trim()} aria-label="Next match">
        ↓
      </button>
      <span class="faint" role="status">
        ${viewer.status}
      </span>
    </form>
  `;
}

/** @param {Viewer} viewer */
function errors(viewer) {
  const { length } = viewer.errors;
  return html`
    <span class="row near">
      <button class="button small danger" onClick=${() => viewer.nextError(-1)} aria-label="Previous error">
        ↑
      </button>
      <button
        class="button small danger"
        onClick=${() => viewer.nextError(1)}
        title="Jump to the next error (e)"
      >
        ${length === 1000 ? "1000+" : length} ${length === 1 ? "error" : "errors"} ↓
      </button>
    </span>
  `;
}

/** @param {Viewer} viewer */
function follow(viewer) {
  const toggle = () => {
    if (!viewer.follow) return viewer.toEnd();
    viewer.follow = false;
    viewer.redraw();
  };
  return html`
    <button class="button small" aria-pressed=${viewer.follow} onClick=${toggle}>
      ${viewer.follow ? "Following" : "Follow"}
    </button>
  `;
}
