// Formats timestamps and durations. One key switches between UTC and the browser's time zone.
import { serverNow } from "./freshness.js";
import { signal } from "./html.js";

/** "utc" or "local", persisted in the browser. */
export const zone = signal(localStorage.getItem("aiosched.zone") === "local" ? "local" : "utc");
export function switchZone() {
  zone.value = zone.value === "utc" ? "local" : "utc";
  localStorage.setItem("aiosched.zone", zone.value);
}

/** The current time by the server's clock, updated every second, for "3 m ago" and countdowns. */
export const now = signal(serverNow());
setInterval(() => {
  if (!document.hidden) now.value = serverNow();
}, 1000);

/**
 * @param {number} n
 * @param {number} [width]
 */
const pad = (n, width = 2) => String(n).padStart(width, "0");

/**
 * `2026-11-20 12:00:05` in the selected zone; "" for null. With `ms`, includes milliseconds.
 * @param {string | number | Date | null | undefined} value
 * @param {{ ms?: boolean }} [options]
 */
export function instant(value, { ms = false } = {}) {
  if (!value) return "";
  const d = new Date(value);
  const utc = zone.value === "utc";
  /** @param {"FullYear" | "Month" | "Date" | "Hours" | "Minutes" | "Seconds" | "Milliseconds"} name */
  const part = (name) => d[/** @type {const} */ (`${utc ? "getUTC" : "get"}${name}`)]();
  const day = `${part("FullYear")}-${pad(part("Month") + 1)}-${pad(part("Date"))}`;
  const text = `${day} ${pad(part("Hours"))}:${pad(part("Minutes"))}:${pad(part("Seconds"))}`;
  return ms ? `${text}.${pad(part("Milliseconds"), 3)}` : text;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/**
 * `26 Nov, 23:00` in the selected zone; with seconds that are not 0, and with the year if it is not this one.
 * @param {string | null | undefined} value
 */
export function dayAndTime(value) {
  if (!value) return "";
  const [day, clock] = instant(value).split(" ");
  const [year, month, date] = day.split("-");
  const isThisYear = year === instant(now.value).slice(0, 4);
  return `${Number(date)} ${MONTHS[Number(month) - 1]}${isThisYear ? "" : ` ${year}`}, ${clock.replace(/:00$/, "")}`;
}

/**
 * The first instant of a day of the selected zone, such as `2026-11-20`, for the API; with `after`, of a day so many
 * days later. Undefined for none.
 * @param {string | undefined} day
 * @param {number} [after]
 */
export function startOfDay(day, after = 0) {
  const [year, month, date] = (day ?? "").split("-").map(Number);
  const start =
    zone.value === "utc" ? Date.UTC(year, month - 1, date + after) : +new Date(year, month - 1, date + after);
  return Number.isNaN(start) ? undefined : new Date(start).toISOString();
}

/** The name of the selected zone. */
export const zoneName = () => (zone.value === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone);

/**
 * Whole units in words, without those that are 0; a number and its unit stay on one line.
 * @param {[number: number, unit: string][]} parts
 */
const units = (parts) =>
  parts
    .filter(([number], i) => number || i === 0)
    .map(([number, unit]) => `${number}\u00a0${unit}`)
    .join(" ");

/**
 * `4 m 12 s`, `310 ms`, `6 s`, `2 d 3 h`, `1 d`; "" for null.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const sign = seconds < 0 ? "-" : "";
  return sign + lengthOf(Math.abs(seconds));
}

/** @param {number} s at least 0 */
function lengthOf(s) {
  if (s < 0.9995) return units([[Math.round(s * 1000), "ms"]]);
  if (s < 9.95) return units([[Math.round(s * 10) / 10, "s"]]);
  const whole = Math.round(s);
  if (whole < 60) return units([[whole, "s"]]);
  const [m, h, d] = [whole / 60, whole / 3600, whole / 86_400].map(Math.floor);
  if (!h)
    return units([
      [m, "m"],
      [whole % 60, "s"],
    ]);
  if (!d)
    return units([
      [h, "h"],
      [m % 60, "m"],
    ]);
  return units([
    [d, "d"],
    [h % 24, "h"],
  ]);
}

/**
 * Seconds between two timestamps; the second defaults to now.
 * @param {string | null | undefined} from
 * @param {string | null} [to]
 */
export const secondsBetween = (from, to) =>
  from ? ((to ? Date.parse(to) : now.value) - Date.parse(from)) / 1000 : null;

/**
 * `3 m 5 s ago`, `in 12 s`.
 * @param {string | null | undefined} value
 */
export function relative(value) {
  if (!value) return "";
  const seconds = (Date.parse(value) - now.value) / 1000;
  const text = duration(Math.max(Math.abs(Math.round(seconds)), 1));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** Steps of seconds that people count in. */
export const STEPS = [
  ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200],
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400),
];

/**
 * A number of seconds as long as a step needs it: `5 ms`, `1.02 s`, `1 m 30 s`.
 * @param {number} seconds
 * @param {number} step in seconds
 */
export const lengthAtStep = (seconds, step) =>
  seconds < 1 || step >= 1 ? duration(seconds) : units([[Number(seconds.toFixed(3)), "s"]]);

/** How far the selected zone is ahead of UTC at a time; both in ms. @param {number} time */
const ahead = (time) => (zone.value === "utc" ? 0 : -new Date(time).getTimezoneOffset() * 60_000);

/**
 * Round instants for an axis: at most `most` between two times, all in ms, at steps that people count in (`STEPS`),
 * which begin at midnight of the selected zone.
 * @param {number} from
 * @param {number} to
 * @param {number} most
 * @param {number} [least] the shortest step, in ms
 */
export function roundInstants(from, to, most, least = 1000) {
  const step =
    STEPS.map((seconds) => seconds * 1000).find((ms) => ms >= least && (to - from) / ms <= most) ?? to - from;
  const first = Math.ceil((from + ahead(from)) / step);
  const count = Math.floor((to + ahead(to)) / step) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => {
    const shown = (first + i) * step;
    return shown - ahead(shown - ahead(shown));
  });
}
