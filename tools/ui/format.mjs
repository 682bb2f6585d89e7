// Formats the modules of the web UI: `npm run format` writes them, `node format.mjs --check` names those that differ.
//
// Prettier does not know htm templates, but it knows JSX, which means the same and treats white space alike. So
// templates become JSX, are formatted, and become templates again: `<${Card} wide=${x}>` is `<Card$$$ wide$={x}>`, which
// is as long.
import { parse } from "@babel/parser";
import htm from "htm";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { format } from "prettier";

const UI = fileURLToPath(new URL("../../aiosched/web/ui/", import.meta.url));
const OWN = fileURLToPath(new URL("./", import.meta.url));
const OPTIONS = { parser: "babel", printWidth: 112, objectWrap: "collapse" }; // html`` makes lines longer, up to 120
const MARK = "$$$"; // behind the name of a component
const CODE = Symbol("code");

/** The source with pieces `[start, end, text]` replaced. */
function edited(source, pieces) {
  let out = "";
  let at = 0;
  for (const [start, end, text] of pieces.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const from = Math.max(start, at); // two fragments take their indentation from the same line
    out += source.slice(at, from) + text;
    at = from + end - start;
  }
  return out + source.slice(at);
}

/** Every node of a module and the one that it stands in. `into(node)` false: nothing inside of that node. */
function* nodesOf(node, into = () => true, parent = null) {
  if (typeof node?.type === "string") yield [node, parent];
  if (parent && !into(node)) return;
  for (const [key, value] of Object.entries(node)) {
    if (key === "extra" || key === "loc" || key.endsWith("omments")) continue;
    for (const one of [value].flat()) if (one && typeof one.type === "string") yield* nodesOf(one, into, node);
  }
}

// ---- templates as JSX ----

const isTemplate = (node) => node.type === "TaggedTemplateExpression" && node.tag.name === "html";

function toJsx(source) {
  const pieces = [];
  for (const [node] of nodesOf(parse(source, { sourceType: "module" }), (node) => !isTemplate(node))) {
    if (isTemplate(node)) pieces.push([node.start, node.end, jsxOf(node.quasi, source)]);
  }
  return edited(source, pieces);
}

/** The code of an expression, for htm in place of its value. */
class Code {
  constructor(number, code) {
    this[CODE] = code;
    this[`...${number}`] = code; // the attribute that stays of it where it is spread
  }
  toString() {
    return refuse(`a template has an expression inside of quotation marks: ${this[CODE]}`);
  }
}

/** A template as JSX, read by htm itself. */
function jsxOf({ quasis, expressions }, source) {
  const codes = expressions.map((_, i) => {
    const code = source.slice(quasis[i].end + "${".length, quasis[i + 1].start - "}".length);
    return new Code(i, toJsx(`(${code})`).slice(1, -1));
  });
  const texts = quasis.map(({ start, end }) => source.slice(start, end));
  const roots = [htm.call(element, texts, ...codes)].flat();
  const inside = roots.map(child).join("");
  return roots.length === 1 && roots[0].jsx ? inside : `<>${inside}</>`;
}

function element(type, props, ...children) {
  const name = type[CODE] ? type[CODE] + MARK : type;
  const attributes = Object.entries(props ?? {})
    .map(attribute)
    .join("");
  const inside = children.map(child).join("");
  return { jsx: inside ? `<${name}${attributes}>${inside}</${name}>` : `<${name}${attributes} />` };
}

function attribute([name, value]) {
  if (name.startsWith("...")) return ` {...${value}}`;
  if (value === true) return ` ${name}`;
  return value[CODE] ? ` ${name}$={${value[CODE]}}` : ` ${name}="${value}"`;
}

function child(one) {
  if (one.jsx) return one.jsx;
  if (one[CODE]) return `{${one[CODE]}}`;
  return /[{}<>\\]/.test(one) ? refuse(`a template has a sign that JSX does not take: ${one}`) : one;
}

function refuse(what) {
  throw new Error(what);
}

// ---- JSX as templates ----

function toHtm(source) {
  const pieces = [];
  for (const [node, parent] of nodesOf(parse(source, { sourceType: "module", plugins: ["jsx"] }))) {
    pieces.push(...(piecesOf[node.type]?.(node, parent, source) ?? []));
  }
  const text = edited(source, pieces);
  return text.replace(/html`\n\s*\n/g, "html`\n").replace(/\n\s*\n(\s*`)/g, "\n$1"); // where a fragment was
}

const piecesOf = {
  JSXElement(node, parent, source) {
    const name = node.openingElement.name;
    const closing = node.closingElement;
    const written = source.slice(name.start, name.end);
    const pieces = around(node, parent, source);
    if (!written.endsWith(MARK)) return pieces;
    pieces.push([name.start, name.end, `\${${written.slice(0, -MARK.length)}}`]);
    if (closing) pieces.push([closing.start, closing.end, "<//>"]);
    return pieces;
  },
  JSXFragment(node, parent, source) {
    const { openingFragment: opening, closingFragment: closing } = node;
    const pieces = [
      [opening.start, opening.end, ""],
      [closing.start, closing.end, ""],
    ];
    const inner = source.slice(opening.end, closing.start);
    for (const { index } of node.extra?.parenthesized ? inner.matchAll(/(?<=\n)  /g) : []) {
      pieces.push([opening.end + index, opening.end + index + 2, ""]); // what was inside of it stands where it stood
    }
    return [...around(node, parent, source), ...pieces];
  },
  JSXAttribute: ({ name, value }) =>
    value?.type === "JSXExpressionContainer" ? [[name.end - 1, name.end, ""]] : [],
  JSXExpressionContainer: ({ start }) => [[start, start, "$"]],
  JSXSpreadAttribute: ({ start }) => [[start, start + "{...".length, "...${"]],
};

/** A template begins and ends where Prettier has parentheses, or where there are none at the JSX itself. */
function around({ start, end, extra }, parent, source) {
  if (parent.type === "JSXElement" || parent.type === "JSXFragment") return [];
  if (!extra?.parenthesized)
    return [
      [start, start, "html`"],
      [end, end, "`"],
    ];
  const closing = source.indexOf(")", end);
  return [
    [extra.parenStart, extra.parenStart + 1, "html`"],
    [closing, closing + 1, "`"],
  ];
}

// ---- the files ----

const check = process.argv.includes("--check");
for (const folder of [UI, OWN]) {
  for (const name of modulesIn(folder)) {
    const source = readFileSync(join(folder, name), "utf8");
    const text = await formatted(source).catch((error) => refuse(`${name}: ${error.message}`));
    if (text === source) continue;
    console.log(check ? `${name} is not formatted: npm run format writes it` : `${name} is written`);
    if (check) process.exitCode = 1;
    else writeFileSync(join(folder, name), text);
  }
}

async function formatted(source) {
  return toHtm(await format(toJsx(source), OPTIONS));
}

function modulesIn(folder) {
  const names = readdirSync(folder, { recursive: true }).sort();
  return names.filter((name) => /\.m?js$/.test(name) && !/^(vendor|node_modules)\b/.test(name));
}
