// Layered layout of a small graph: layers from left to right, neighbours close to each other.

/**
 * `{places: id -> {x, y}, width, height}`; edges are `[from, to]`, cycles are broken where they are found.
 * @param {string[]} ids
 * @param {[string, string][]} edges
 * @param {{ wide: number, high: number, across: number, down: number }} sizes  of a node, and the gaps between nodes
 */
export function layered(ids, edges, { wide, high, across, down }) {
  const after = /** @type {FullMap<string, string[]>} */ (new Map(ids.map((id) => [id, []])));
  const before = /** @type {FullMap<string, string[]>} */ (new Map(ids.map((id) => [id, []])));
  for (const [a, b] of edges) {
    after.get(a)?.push(b);
    before.get(b)?.push(a);
  }
  const layer = layersOf(ids, before);
  /** @type {string[][]} */
  const rows = [];
  for (const id of ids) (rows[layer.get(id)] ??= []).push(id);
  const order = /** @type {FullMap<string, number>} */ (new Map());
  const number = () => rows.forEach((row) => row.forEach((id, i) => order.set(id, i - (row.length - 1) / 2)));
  number();
  for (let round = 0; round < 6; round++) {
    // sort each row by the average position of its neighbours, alternating directions
    const near = round % 2 ? after : before;
    for (const row of round % 2 ? [...rows].reverse() : rows) {
      /** @param {string} id */
      const middle = (id) => {
        const found = near.get(id).map((n) => order.get(n));
        return found.length ? found.reduce((a, b) => a + b, 0) / found.length : order.get(id);
      };
      const wanted = /** @type {FullMap<string, number>} */ (new Map(row.map((id) => [id, middle(id)])));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      number();
    }
  }
  const tallest = Math.max(1, ...rows.map((row) => row.length));
  const height = tallest * (high + down) - down;
  const places = /** @type {FullMap<string, { x: number, y: number }>} */ (new Map());
  rows.forEach((row, x) =>
    row.forEach((id, y) =>
      places.set(id, {
        x: x * (wide + across),
        y: (height - (row.length * (high + down) - down)) / 2 + y * (high + down),
      }),
    ),
  );
  return { places, width: rows.length * (wide + across) - across, height };
}

/**
 * The layer of each node: 0 without predecessors, otherwise after all of them.
 * @param {string[]} ids
 * @param {FullMap<string, string[]>} before the predecessors of each node
 */
function layersOf(ids, before) {
  const layer = /** @type {FullMap<string, number>} */ (new Map());
  const state = new Map();
  /** @param {string} start */
  const depth = (start) => {
    // longest path from a node without predecessors; iterative, because chains can be long
    /** @type {[string, number][]} */
    const stack = [[start, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1];
      const [id] = top;
      const ups = before.get(id);
      state.set(id, "open");
      if (top[1] < ups.length) {
        const up = ups[top[1]++];
        if (!state.has(up)) stack.push([up, 0]);
      } else {
        layer.set(id, Math.max(0, ...ups.filter((up) => layer.has(up)).map((up) => layer.get(up) + 1)));
        state.set(id, "done");
        stack.pop();
      }
    }
  };
  for (const id of ids) if (!state.has(id)) depth(id);
  return layer;
}
