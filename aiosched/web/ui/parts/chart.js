// A small chart of metrics over time.
import { html, useEffect, useRef } from "../lib/html.js";
import uPlot from "../vendor/uplot.js";
import { theme } from "../lib/theme.js";
import { duration, instant, zone } from "../lib/time.js";

const DAY = 86_400; // seconds

/** @param {number} value */
const rounded = (value) => String(Math.round(value * 10) / 10);

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
  /** @type {uPlot.AlignedData} */
  const data = [times, ...lines.map((line) => line.values)];
  useEffect(() => {
    const isLong = times.length > 1 && times[times.length - 1] - times[0] > DAY;
    const options = optionsOf(lines, { least: seconds ? 0.001 : 1, gaps, words, isLong });
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
  }, [theme.value, zone.value, lines.length]);
  useEffect(() => {
    chart.current?.setData(data);
  }, [times.length, times.at(-1)]);
  return html`
    <figure class="chart" aria-label=${label}>
      <figcaption class="faint">${label}</figcaption>
      <div ref=${box} />
    </figure>
  `;
}

/**
 * `least` is the least height of the scale; `isLong`: dates are needed beside times.
 * @param {Line[]} lines
 * @param {{ least: number, gaps: boolean, words: (value: number) => string, isLong: boolean }} how
 * @returns {Omit<uPlot.Options, "width">}
 */
function optionsOf(lines, { least, gaps, words, isLong }) {
  /**
   * @param {unknown} u
   * @param {number | null | undefined} v
   */
  const shown = (u, v) => (v === null || v === undefined ? "–" : words(v));
  /** @param {number} second */
  const time = (second) => (isLong ? instant(second * 1000).slice(5, 16) : instant(second * 1000).slice(11));
  const axis = {
    stroke: colour("--text-faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px sans-serif",
  };
  return {
    height: 150,
    cursor: { y: false },
    scales: { y: { range: (u, low, high) => [0, Math.max(high || 0, least) * 1.1] } },
    axes: [
      { ...axis, space: isLong ? 90 : 50, values: (u, values) => values.map(time) },
      { ...axis, size: 56, values: (u, values) => values.map((v) => shown(u, v)) },
    ],
    series: [
      { label: "at", value: (u, v) => (v === null || v === undefined ? "–" : time(v)) },
      ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 1.5,
        spanGaps: !gaps,
        points: { size: 4 },
        value: shown,
      })),
    ],
  };
}
