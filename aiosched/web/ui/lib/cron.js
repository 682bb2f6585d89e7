// Describes schedules in words: common cron expressions; others are shown as they are.

/** @type {Record<string, string>} */
const PRESETS = {
  "@once": "once",
  "@continuous": "continuously",
  "@hourly": "every hour",
  "@daily": "every day at 00:00",
  "@midnight": "every day at 00:00",
  "@weekly": "every Sunday at 00:00",
  "@monthly": "on day 1 of every month at 00:00",
  "@quarterly": "on day 1 of every quarter at 00:00",
  "@yearly": "every 1 January at 00:00",
  "@annually": "every 1 January at 00:00",
};
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = [
  "",
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const SHORT_DAYS = Object.fromEntries(DAYS.slice(0, 7).map((day, i) => [day.slice(0, 3).toUpperCase(), i]));
const SHORT_MONTHS = Object.fromEntries(
  MONTHS.slice(1).map((month, i) => [month.slice(0, 3).toUpperCase(), i + 1]),
);

/**
 * @param {string} text
 * @param {Record<string, number>} [names]
 */
const number = (text, names) => (/^\d+$/.test(text) ? Number(text) : names?.[text.toUpperCase()]);
/** @param {number} n */
const pad = (n) => String(n).padStart(2, "0");
/** @param {(string | number)[]} words */
const and = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

/**
 * @typedef {{ every?: boolean, step?: number, list?: number[] }
 *   & ({ from: number, to: number } | { from?: undefined, to?: undefined })} Field
 *
 * A field as `{every}`, `{step}`, `{from, to}` or `{list}`; null if it has no short description.
 * @param {string} text
 * @param {number} low
 * @param {number} high
 * @param {Record<string, number>} [names]
 * @returns {Field | null}
 */
function field(text, low, high, names) {
  if (text === "*") return { every: true };
  const step = /^(?:\*|0)\/(\d+)$/.exec(text);
  if (step) return Number(step[1]) > 0 ? { step: Number(step[1]) } : null;
  const range = /^(\w+)-(\w+)$/.exec(text);
  if (range) {
    const from = number(range[1], names);
    const to = number(range[2], names);
    return from === undefined || to === undefined ? null : { from, to };
  }
  const list = text.split(",").map((one) => number(one, names));
  if (!list.every((one) => one !== undefined && one >= low && one <= high)) return null;
  return { list: /** @type {number[]} */ (list) };
}

/**
 * @param {Field} minute
 * @param {Field} hour
 */
function time(minute, hour) {
  if (minute.every && hour.every) return "every minute";
  if (minute.step && hour.every) return minute.step === 1 ? "every minute" : `every ${minute.step} minutes`;
  if (minute.step && hour.from !== undefined)
    return `every ${minute.step} minutes from ${pad(hour.from)}:00 to ${pad(hour.to)}:59`;
  const { list } = minute;
  if (!list) return null;
  const minutes = and(list.map((m) => `:${pad(m)}`));
  if (hour.every) return minutes === ":00" ? "every hour" : `every hour at ${minutes}`;
  if (hour.step) return `every ${hour.step} hours${minutes === ":00" ? "" : ` at ${minutes}`}`;
  if (hour.from !== undefined && list.length === 1)
    return `every hour from ${pad(hour.from)}:${pad(list[0])} to ${pad(hour.to)}:${pad(list[0])}`;
  if (!hour.list || hour.list.length * list.length > 4) return null;
  return `at ${and(hour.list.flatMap((h) => list.map((m) => `${pad(h)}:${pad(m)}`)))}`;
}

/**
 * @param {Field} dayOfMonth
 * @param {Field} month
 * @param {Field} dayOfWeek
 */
function day(dayOfMonth, month, dayOfWeek) {
  const months = month.every ? "" : month.list ? and(month.list.map((m) => MONTHS[m])) : null;
  if (months === null) return null;
  if (!dayOfMonth.every && !dayOfWeek.every) return null;
  const { list } = dayOfMonth;
  if (list) {
    if (!month.list) return `on day ${and(list)} of every month`;
    return list.length * month.list.length <= 4
      ? `every ${and(month.list.flatMap((m) => list.map((d) => `${d} ${MONTHS[m]}`)))}`
      : null;
  }
  if (!dayOfMonth.every) return null;
  const within = months && ` in ${months}`;
  if (dayOfWeek.list) return `every ${and(dayOfWeek.list.map((d) => DAYS[d]))}${within}`;
  if (dayOfWeek.from !== undefined) return `${DAYS[dayOfWeek.from]} to ${DAYS[dayOfWeek.to]}${within}`;
  return dayOfWeek.every ? `every day${within}` : null;
}

/**
 * "every day at 03:00" for "0 3 * * *"; null if there is no description.
 * @param {string} expression
 */
export function cronWords(expression) {
  if (PRESETS[expression]) return PRESETS[expression];
  const parts = expression.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  const fields = [
    field(parts[0], 0, 59),
    field(parts[1], 0, 23),
    field(parts[2], 1, 31),
    field(parts[3], 1, 12, SHORT_MONTHS),
    field(parts[4], 0, 7, SHORT_DAYS),
  ];
  if (fields.some((one) => one === null)) return null;
  const [minute, hour, dayOfMonth, month, dayOfWeek] = /** @type {Field[]} */ (fields);
  const when = time(minute, hour);
  const days = day(dayOfMonth, month, dayOfWeek);
  if (when === null || days === null) return null;
  if (when.startsWith("every")) return days === "every day" ? when : `${when}, ${days}`;
  return `${days} ${when}`;
}

/**
 * A human-readable schedule: `{words, expression}`; the expression is null if the words say it all.
 * @param {string | null | undefined} schedule
 */
export function scheduleWords(schedule) {
  if (!schedule || schedule === "none") return { words: "manual", expression: null };
  const or = schedule.indexOf(" or "); // a timetable, or assets
  if (or > 0 && cronWords(schedule.slice(0, or)))
    return { words: `${cronWords(schedule.slice(0, or))}${schedule.slice(or)}`, expression: schedule };
  const zoned = /^(.*?) \(?([A-Z][A-Za-z]+\/[\w/+-]+)\)?$/.exec(schedule); // an expression with its time zone
  if (PRESETS[schedule]) return { words: PRESETS[schedule], expression: null };
  const words =
    cronWords(schedule) ?? (zoned && cronWords(zoned[1]) ? `${cronWords(zoned[1])}, ${zoned[2]}` : null);
  return words ? { words, expression: schedule } : { words: schedule, expression: null };
}
