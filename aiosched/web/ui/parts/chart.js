// A small chart of metrics over time.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import uPlot from "../vendor/uplot.js";
import { theme } from "../lib/theme.js";
import { STEPS, duration, instant, roundInstants, zone } from "../lib/time.js";
import { Legend, NUMBERS } from "./legend.js";

const DAY = 86_400; // seconds

/** @param {number} value */
const rounded = (value) => (Math.round(value * 10) / 10).toLocaleString("en");

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * @typedef {{ name: string, colour: string, values: (number | null)[] }} Line
 *
 * `times` are in seconds; missing values are null, and `gaps` shows them as such. `seconds`: values are durations;
 * `words` writes other values.
 * @param {{ label: string, times: number[], lines: Line[], seconds?: boolean, gaps?: boolean,
 *   words?: (value: number) => string }} props
 */
export function Chart({
  label,
  times,
  lines,
  seconds = false,
  gaps = false,
  words = seconds ? duration : rounded,
}) {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  /** @type {Ref<uPlot | null>} */
  const chart = useRef(null);
  const [place, setPlace] = useState(/** @type {number | null | undefined} */ (null)); // under the pointer
  /** @type {uPlot.AlignedData} */
  const data = [times, ...lines.map((line) => line.values)];
  const isLong = times.length > 1 && times[times.length - 1] - times[0] > DAY;
  const isEmpty = times.length < 2 || lines.every((line) => line.values.every((value) => value === null));
  useEffect(() => {
    if (isEmpty) return undefined;
    const options = optionsOf(lines, { seconds, gaps, words, isLong, onPlace: setPlace });
    chart.current = new uPlot({ ...options, width: box.current.clientWidth }, data, box.current);
    const observer = new ResizeObserver(([entry]) =>
      chart.current?.setSize({ width: entry.contentRect.width, height: 150 }),
    );
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [theme.value, zone.value, lines.length, isEmpty]);
  useEffect(() => {
    chart.current?.setData(data);
  }, [times.length, times.at(-1)]);
  return html`
    <figure class="chart" aria-label=${label}>
      <figcaption class="faint">${label}</figcaption>
      ${isEmpty ? html`<p class="soft">No figures yet.</p>` : html`<div ref=${box} />`}
      ${!isEmpty && html`
        <${Legend}
          lines=${lines}
          place=${place}
          words=${words}
          at=${typeof place === "number" ? timeOf(times[place], isLong) : ""}
        />
      `}
    </figure>
  `;
}

/**
 * @param {number} second
 * @param {boolean} isLong dates are needed beside times
 */
const timeOf = (second, isLong) => instant(second * 1000).slice(isLong ? 5 : 11, isLong ? 16 : 19);

/**
 * @param {Line[]} lines
 * @param {{ seconds: boolean, gaps: boolean, words: (value: number) => string, isLong: boolean,
 *   onPlace: (place: number | null | undefined) => void }} how
 * @returns {Omit<uPlot.Options, "width">}
 */
function optionsOf(lines, { seconds, gaps, words, isLong, onPlace }) {
  const least = seconds ? 0.001 : 1; // height of the scale
  /**
   * @param {unknown} u
   * @param {number | null | undefined} v
   */
  const shown = (u, v) => (v === null || v === undefined ? "–" : words(v));
  const axis = {
    stroke: colour("--text-faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${colour("--sans")}`,
  };
  return {
    height: 150,
    cursor: { y: false },
    legend: { show: false },
    hooks: { setCursor: [(u) => onPlace(u.cursor.idx)] },
    scales: { y: { range: (u, low, high) => [0, Math.max(high || 0, least) * 1.1] } },
    axes: [
      {
        ...axis,
        size: 28,
        splits: (u, at, low, high) =>
          roundInstants(low * 1000, high * 1000, u.width / (isLong ? 110 : 80)).map((ms) => ms / 1000),
        values: (u, values) => values.map((v) => timeOf(v, isLong)),
      },
      {
        ...axis,
        size: 56,
        incrs: seconds ? STEPS : NUMBERS,
        values: (u, values) => values.map((v) => shown(u, v)),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 1.5,
        spanGaps: !gaps,
        points: { size: 4 },
      })),
    ],
  };
}
