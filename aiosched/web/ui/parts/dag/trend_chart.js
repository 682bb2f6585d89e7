// A chart of figures of runs, one place a run; a click leads to the run.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import uPlot from "../../vendor/uplot.js";
import { theme } from "../../lib/theme.js";
import { STEPS, duration, instant, zone } from "../../lib/time.js";
import { colours } from "../canvas.js";
import { Legend, NUMBERS } from "../legend.js";

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const HEIGHT = 190;

/**
 * `kind` "line" connects the values, "points" marks single ones, "level" is a dashed line.
 * @typedef {{ name: string, colour: string, values: (number | null)[], kind: "line" | "points" | "level" }} Series
 *
 * `dates` are those of the runs; `count`: values are numbers, not seconds; `onPick` gets the place of a clicked run.
 * @param {{ label: string, dates: string[], series: Series[], count?: boolean, onPick: (place: number) => void }} props
 */
export function TrendChart({ label, dates, series, count = false, onPick }) {
  /** @type {Ref<HTMLElement>} */
  const box = useRef(null);
  const pick = useRef(onPick);
  pick.current = onPick;
  const [place, setPlace] = useState(/** @type {number | null | undefined} */ (null)); // under the pointer
  useEffect(() => {
    /** @type {uPlot.AlignedData} */
    const data = [dates.map((_, place) => place), ...series.map((one) => one.values)];
    const chart = new uPlot(
      optionsOf(dates, series, { count, onPlace: setPlace }, box.current.clientWidth),
      data,
      box.current,
    );
    const click = () => typeof chart.cursor.idx === "number" && pick.current(chart.cursor.idx);
    chart.over.addEventListener("click", click);
    const observer = new ResizeObserver(([entry]) =>
      chart.setSize({ width: entry.contentRect.width, height: HEIGHT }),
    );
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [theme.value, colours.value, zone.value, dates.join(), JSON.stringify(series)]);
  return html`
    <figure class="chart trend" aria-label=${label}>
      <figcaption class="faint">${label}</figcaption>
      <div ref=${box} />
      <${Legend}
        lines=${series}
        place=${place}
        words=${count ? (/** @type {number} */ n) => n.toLocaleString("en") : duration}
        at=${typeof place === "number" && dates[place] ? instant(dates[place]).slice(0, 16) : ""}
      />
    </figure>
  `;
}

/**
 * @param {string[]} dates
 * @param {Series[]} series
 * @param {{ count: boolean, onPlace: (place: number | null | undefined) => void }} how
 * @param {number} width in pixels
 * @returns {uPlot.Options}
 */
function optionsOf(dates, series, { count, onPlace }, width) {
  /**
   * @param {unknown} u
   * @param {number | null | undefined} v
   */
  const shown = (u, v) => (v === null || v === undefined ? "–" : count ? String(v) : duration(v));
  /** @param {number} place */
  const date = (place) => (Number.isInteger(place) && dates[place] ? instant(dates[place]).slice(5, 16) : "");
  const axis = {
    stroke: colour("--text-faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${colour("--sans")}`,
  };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { show: false },
    hooks: { setCursor: [(u) => onPlace(u.cursor.idx)] },
    scales: {
      x: { time: false, range: [-0.5, Math.max(dates.length - 0.5, 0.5)] },
      y: { range: (u, low, high) => [Math.min(low ?? 0, 0), Math.max(high ?? 0, count ? 1 : 0.001) * 1.1] },
    },
    axes: [
      { ...axis, size: 28, space: 90, values: (u, places) => places.map(date) },
      {
        ...axis,
        size: 64,
        incrs: count ? NUMBERS : STEPS,
        values: (u, values) => values.map((v) => shown(u, v)),
      },
    ],
    series: [{}, ...series.map((one) => ({ label: one.name, ...drawn(one) }))],
  };
}

/**
 * How a series is drawn.
 * @param {Series} series
 */
function drawn({ kind, colour: name }) {
  const stroke = colour(name);
  if (kind === "level") return { stroke, width: 1, dash: [5, 4], points: { show: false } };
  if (kind === "line") return { stroke, width: 1.5, spanGaps: true, points: { size: 4 } };
  return { stroke, width: 0, paths: () => null, points: { show: true, size: 9, fill: stroke } };
}
