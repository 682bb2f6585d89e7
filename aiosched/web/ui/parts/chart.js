// A small chart of metrics since the page was opened.
import { html, useEffect, useRef } from "../lib/html.js";
import uPlot from "../vendor/uplot.js";
import { theme } from "../lib/theme.js";
import { duration, instant, zone } from "../lib/time.js";

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * @typedef {{ name: string, colour: string, values: (number | null)[] }} Line
 *
 * `times` are in seconds; missing values are null; `seconds`: values are durations.
 * @param {{ label: string, times: number[], lines: Line[], seconds?: boolean }} props
 */
export function Chart({ label, times, lines, seconds = false }) {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  /** @type {Ref<uPlot | null>} */
  const chart = useRef(null);
  /** @type {uPlot.AlignedData} */
  const data = [times, ...lines.map((line) => line.values)];
  useEffect(() => {
    chart.current = new uPlot(optionsOf(lines, seconds, box.current.clientWidth), data, box.current);
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
 * @param {Line[]} lines
 * @param {boolean} seconds whether values are durations
 * @param {number} width in pixels
 * @returns {uPlot.Options}
 */
function optionsOf(lines, seconds, width) {
  /**
   * @param {unknown} u
   * @param {number | null | undefined} v
   */
  const shown = (u, v) =>
    v === null || v === undefined ? "–" : seconds ? duration(v) : String(Math.round(v * 10) / 10);
  const axis = {
    stroke: colour("--text-faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px sans-serif",
  };
  return {
    width,
    height: 150,
    cursor: { y: false },
    scales: { y: { range: (u, low, high) => [0, Math.max(high || 0, seconds ? 0.001 : 1) * 1.1] } },
    axes: [
      { ...axis, values: (u, values) => values.map((v) => instant(v * 1000).slice(11)) },
      { ...axis, size: 56, values: (u, values) => values.map((v) => shown(u, v)) },
    ],
    series: [
      { label: "at", value: (u, v) => (v === null || v === undefined ? "–" : instant(v * 1000).slice(11)) },
      ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour),
        width: 1.5,
        spanGaps: true,
        points: { size: 4 },
        value: shown,
      })),
    ],
  };
}
