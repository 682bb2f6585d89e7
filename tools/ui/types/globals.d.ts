// Types that comments of the UI's modules name without importing them; those of the API are in api.d.ts.
type Signal<T> = import("@preact/signals").Signal<T>;
type ReadonlySignal<T> = import("@preact/signals").ReadonlySignal<T>;
type Ref<T> = { current: T };
type Resource<T> = import("../../../aiosched/web/ui/lib/resources.js").Resource<T>;
type List<T> = import("../../../aiosched/web/ui/lib/resources.js").List<T>;

type Problem = import("../../../aiosched/web/ui/lib/api.js").Problem;

/** What a component shows: elements, text, or nothing. */
type Content = import("preact").ComponentChildren;

/**
 * A column of a table of `T`; `label` names it on a phone if `head` is not text. Once a column has a `width` (px), the
 * columns without one share the rest, and what does not fit into a cell is cut. `stays`: at which edge it is kept in
 * sight; `least`: it is left out of a table that is narrower (px).
 */
type Column<T> = {
  head: Content;
  label?: string;
  right?: boolean;
  width?: number;
  stays?: "left" | "right";
  least?: 1000 | 1300;
  sorted?: "ascending" | "descending";
  cell: (item: T) => Content;
};

/** One of several values to choose from: the value and its label. */
type Choice = [value: string, label: Content];

/** An event of a field of a form. */
type FieldEvent = Event & { target: HTMLInputElement };

/** The response to an action; `accepted`: it is stored and waits for a scheduler. */
type Answer = { accepted?: boolean } | null;

/** What every dialog of an action is given: it is closed, and the action was successful. */
type DialogProps = { onClose: () => void; onDone?: (response: Answer) => void };

/** The query parameters of an address that select an instance of a mapped task. */
type InstanceParams = { map_index?: number };

/** A change of a run, sent by the server. */
type RunPatch = { kind: "run"; run?: undefined; verb?: undefined } & Pick<
  Api["RunResource"],
  "key" | "dag_id" | "state" | "start_date" | "end_date" | "note"
>;

/** A change of task instances of a run: `counts` by task index and state. */
type TaskPatch = {
  kind: "task";
  run: number;
  counts?: Record<string, Record<string, number>>;
  key?: undefined;
  dag_id?: undefined;
  verb?: undefined;
};

/** Something else has changed; `verb` is that of a request. */
type OtherPatch = {
  kind: "reset" | "dag" | "command" | "pool" | "asset" | "scheduler";
  dag_id?: string | null;
  verb?: string;
  key?: undefined;
  run?: undefined;
};

/** A change that the server has sent: see lib/live.js. */
type Patch = RunPatch | TaskPatch | OtherPatch;

/** A map that has every key that it is asked for. */
interface FullMap<K, V> extends Map<K, V> {
  get(key: K): V;
}

interface Array<T> {
  filter(predicate: BooleanConstructor): Exclude<T, null | undefined | false | 0 | "">[];
}

/** Newer than the types of the language. */
interface JSON {
  rawJSON?: (text: string) => unknown;
}

// Markdown: a piece of a paragraph, and a block. See lib/markdown.js.
type Piece =
  | ["text", string]
  | ["code", string]
  | ["strong", Piece[]]
  | ["em", Piece[]]
  | ["link", string, Piece[]];
type Block =
  | ["heading", number, Piece[]]
  | ["paragraph", Piece[]]
  | ["code", string]
  | ["quote", Block[]]
  | ["list", boolean, Block[][]]
  | ["rule"]
  | ["table", Piece[][], Piece[][][]];
