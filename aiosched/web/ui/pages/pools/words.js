// Shared by the pool modules: the patches they subscribe to, and slot counts as text.

export const LIVE = { kinds: ["pool", "run"] }; // used slots change with task states

/** @param {number} n */
export const slots = (n) => (n < 0 ? "unlimited slots" : n === 1 ? "1 slot" : `${n} slots`);
