import type { Dispatch, MutableRef, StateUpdater } from "preact/hooks";

export * from "preact/hooks";

// What begins with null or an empty list may hold anything later.
export function useState(initial: null): [any, (next: any) => void];
export function useState(initial: never[]): [any[], (next: any) => void];
export function useState<S>(initial: S | (() => S)): [S, Dispatch<StateUpdater<S>>];
export function useRef(initial: null): MutableRef<any>;
export function useRef<T>(initial: T): MutableRef<T>;
