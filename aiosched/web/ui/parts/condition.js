// Changes that only create, or only change what exists (RFC 9110, 13.1): options of `put`.

/**
 * For a dialog that changes the item `before`, or creates one if there is none. It neither overwrites what somebody
 * else has created, nor creates again what somebody else has deleted.
 * @param {object | null | undefined} before
 */
export const onlyIf = (before) => ({ headers: { [before ? "If-Match" : "If-None-Match"]: "*" } });
