import type { VNode } from "preact";

// What a template holds. htm has no types for it: which element or component gets a value is known when it runs, and so
// is what a function is called with.
type Held = string | number | bigint | boolean | null | undefined | object | ((...given: any[]) => unknown);

declare const htm: {
  bind(h: Function): (strings: TemplateStringsArray, ...held: Held[]) => VNode | VNode[];
};
export default htm;
