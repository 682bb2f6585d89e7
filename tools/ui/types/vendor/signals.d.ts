import type { Signal } from "@preact/signals";

export * from "@preact/signals";

// What begins with null or an empty list may hold anything later.
export function signal(initial: null): Signal<any>;
export function signal(initial: never[]): Signal<any[]>;
export function signal<T>(initial: T): Signal<T>;
export function useSignal(initial: null): Signal<any>;
export function useSignal<T>(initial: T): Signal<T>;
