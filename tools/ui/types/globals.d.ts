// Types that comments of the UI's modules name without importing them; those of the API are in api.d.ts.
type Signal<T> = import("@preact/signals").Signal<T>;
