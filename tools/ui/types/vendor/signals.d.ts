import type { Signal } from "@preact/signals";

export * from "@preact/signals";

// What begins with null or an empty list has something else later.
export function signal<T>(initial: null): Signal<T | null>;
export function signal<T>(initial: never[]): Signal<T[]>;
export function signal<T>(initial: T): Signal<T>;
export function useSignal<T>(initial: T): Signal<T>;
