// What the parts of the page of pools share: the news that concern it, and slots in words.

export const LIVE = { kinds: ["pool", "run"] }; // slots change hands with the states of runs' tasks

/** @param {number} n */
export const slots = (n) => (n < 0 ? "no limit" : n === 1 ? "1 slot" : `${n} slots`);
