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
 * `4 m 12 s`, `310 ms`, `2 d 3 h`; "" for null.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  const s = Math.abs(seconds);
  const sign = seconds < 0 ? "-" : "";
  if (s < 0.9995) return `${sign}${Math.round(s * 1000)} ms`;
  if (s < 60) return `${sign}${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${sign}${Math.floor(s / 60)} m ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${sign}${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  return `${sign}${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/**
 * Seconds between two timestamps; the second defaults to now.
 * @param {string | null | undefined} from
 * @param {string | null} [to]
 */
export const secondsBetween = (from, to) =>
  from ? ((to ? Date.parse(to) : now.value) - Date.parse(from)) / 1000 : null;

/**
 * `3 m ago`, `in 12 s`.
 * @param {string | null | undefined} value
 */
export function relative(value) {
  if (!value) return "";
  const seconds = (Date.parse(value) - now.value) / 1000;
  const text = duration(Math.max(Math.abs(Math.round(seconds)), 1));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}
