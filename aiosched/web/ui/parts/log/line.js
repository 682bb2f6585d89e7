// A line of a log: number, colours, highlighted search matches.
import { classes, html } from "../../lib/html.js";
import { pieces } from "../../lib/ansi.js";
import { here, href, query } from "../../lib/router.js";

const MAX_LENGTH = 20_000; // characters shown of a line

const BAD = /^Traceback \(most recent call last\)|\b(ERROR|CRITICAL|FATAL)\b|^\w*(Error|Exception): /;

const ODD = /\b(WARN|WARNING)\b/;

/**
 * `text` with search matches highlighted.
 * @param {string} text
 * @param {string} words
 */
function marked(text, words) {
  if (!words) return text;
  /** @type {Content[]} */
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

/**
 * @param {{ number: number, text: string | undefined, words: string, chosen: boolean,
 *   onChoose: (line: number) => void }} props
 */
export function Line({ number, text, words, chosen, onChoose }) {
  const hidden = Math.max((text?.length ?? 0) - MAX_LENGTH, 0); // characters
  const shown =
    text === undefined ? html`
      <span class="skeleton" />
    ` : (
      pieces(text.slice(0, MAX_LENGTH)).map(({ text: part, className, style }) =>
        className ? html`
          <span class=${className} style=${style}>
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
        href=${href(`${here.value.path}?${new URLSearchParams({ ...query.value, line: String(number + 1) })}`)}
        onClick=${(e) => {
          e.preventDefault();
          onChoose(number);
        }}
      >
        ${number + 1}
      </a>
      <span class="text">
        ${shown}
        ${hidden > 0 && html`<em> … ${hidden.toLocaleString("en")} more characters in the download</em>`}
      </span>
    </div>
  `;
}
