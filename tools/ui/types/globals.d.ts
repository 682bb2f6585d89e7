// Types that comments of the UI's modules name without importing them; those of the API are in api.d.ts.
type Signal<T> = import("@preact/signals").Signal<T>;

/** The properties of a component: those that are named here, and others. */
type Props<T> = T & { [name: string]: any };

/** A column of a table of `T`. */
type Column<T> = { head: any; right?: boolean; cell: (item: T) => any };
