// Lists every string of the web UI that people read, module by module, to be read as a whole: `node strings.mjs`.
//
// Generated rather than kept: a component's words stay where they are used, and the list is never old. `…` is a value.
import { parse } from "@babel/parser";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const UI = fileURLToPath(new URL("../../aiosched/web/ui/", import.meta.url));
const READ =
  /\s(?:aria-label|caption|label|lead|none|noun|placeholder|submitLabel|title|words|any|done)="([^"]*)"/g;
const NEVER = /^(?:https?:|\/|\.\/|\.\.\/|[a-z-]+\/|--|#|\d|[a-z_]+$|[MC]\d)/; // addresses, ids, names of variables, paths of SVG

/** The strings of a template of htm: texts between tags, and attributes that are read or shown. */
function ofTemplate(quasis) {
  const source = quasis.map((one) => one.value.cooked).join("…");
  const attributes = [...source.matchAll(READ)].map((found) => found[1]);
  const texts = source.split(/<[^>]*>/).map((text) => text.replace(/\s+/g, " ").trim());
  return [...texts, ...attributes];
}

/** Every node below another one, with what it stands in. */
function* nodesOf(node, parent) {
  if (typeof node.type === "string") yield [node, parent];
  for (const [key, value] of Object.entries(node)) {
    if (key === "loc" || key === "extra" || key.endsWith("omments")) continue;
    for (const one of [value].flat()) if (one && typeof one.type === "string") yield* nodesOf(one, node);
  }
}

/** Whether a string outside of templates is for people: it has a space or begins with a capital. */
const isRead = (text) =>
  /[A-Za-z]{2}/.test(text) && !NEVER.test(text) && (/\s/.test(text) || /^[A-Z]/.test(text));

function stringsOf(source) {
  const found = [];
  for (const [node, parent] of nodesOf(parse(source, { sourceType: "module" }).program, null)) {
    if (node.type === "StringLiteral" && !parent.type.startsWith("Import") && isRead(node.value))
      found.push(node.value);
    if (node.type !== "TemplateLiteral") continue;
    const isTagged = parent.type === "TaggedTemplateExpression";
    found.push(
      ...(isTagged
        ? ofTemplate(node.quasis)
        : [node.quasis.map((one) => one.value.cooked).join("…")].filter(isRead)),
    );
  }
  return [...new Set(found)].filter((text) => /[A-Za-z]{2}/.test(text.replace(/…/g, "")));
}

const modules = readdirSync(UI, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".js") && !name.startsWith("vendor"))
  .sort();
for (const name of modules) {
  const strings = stringsOf(readFileSync(join(UI, name), "utf8"));
  if (strings.length) console.log([name, ...strings.map((text) => `  ${text}`)].join("\n"));
}
