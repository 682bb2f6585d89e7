// Metrics for display: sizes, quantiles of the schedulers' histograms, and the change between two samples.

/**
 * Values by size: `buckets` are how many were at most the bound of the same index, and the rest.
 * @typedef {{ count: number, sum: number, bounds: number[], buckets: number[] }} Histogram
 */

/**
 * The difference between a histogram and an earlier one.
 * @param {Histogram} now
 * @param {Histogram | null | undefined} before
 */
export const since = (now, before) =>
  before && now.count >= before.count
    ? {
        ...now,
        count: now.count - before.count,
        sum: now.sum - before.sum,
        buckets: now.buckets.map((n, i) => n - before.buckets[i]),
      }
    : now;

/**
 * The `q` quantile of a histogram, interpolated within a bucket; null if the histogram is empty.
 * @param {Histogram | null | undefined} histogram
 * @param {number} q
 */
export function quantile(histogram, q) {
  if (!histogram?.count) return null;
  const wanted = q * histogram.count;
  let seen = 0;
  for (let i = 0; i < histogram.buckets.length; i++) {
    const inside = histogram.buckets[i];
    if (inside && seen + inside >= wanted) {
      const low = i ? histogram.bounds[i - 1] : 0;
      const high = histogram.bounds[i];
      return high === undefined ? low : low + (high - low) * ((wanted - seen) / inside);
    }
    seen += inside;
  }
  return null;
}

/**
 * Merge the same histogram of several schedulers.
 * @param {(Histogram | null | undefined)[]} histograms
 */
export function together(histograms) {
  const found = histograms.filter(Boolean);
  if (!found.length) return null;
  return found
    .slice(1)
    .reduce(
      (a, b) => ({
        ...a,
        count: a.count + b.count,
        sum: a.sum + b.sum,
        buckets: a.buckets.map((n, i) => n + (b.buckets[i] ?? 0)),
      }),
      found[0],
    );
}

/**
 * A human-readable size: "12.3 kB".
 * @param {number} n bytes
 */
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(1)} kB`;
  if (n < 1e9) return `${(n / 1e6).toFixed(1)} MB`;
  return `${(n / 1e9).toFixed(2)} GB`;
}
