import type { Dispatch, MutableRef, StateUpdater } from "preact/hooks";

export * from "preact/hooks";

export function useState<S>(initial: S | (() => S)): [S, Dispatch<StateUpdater<S>>];

// A ref is null until its element is there; where its type leaves that out, it is used only then.
export function useRef<T>(initial: null): MutableRef<T>;
export function useRef<T>(initial: T): MutableRef<T>;
