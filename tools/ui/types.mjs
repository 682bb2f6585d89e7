// The models of the REST API as types: `npm run types` writes types/api.d.ts from docs/openapi.json, `node types.mjs
// --check` compares. Modules of the UI name them in their comments: `{Api["RunResource"]}` is a run.
import { readFileSync, writeFileSync } from "node:fs";
import openapi, { astToString } from "openapi-typescript";
import { format } from "prettier";

const SOURCE = new URL("../../docs/openapi.json", import.meta.url);
const TARGET = new URL("types/api.d.ts", import.meta.url);
const HEAD = "// Written by types.mjs from docs/openapi.json: npm run types\n\n";
const GLOBAL = '\ndeclare global {\n  type Api = components["schemas"];\n}\n';

const { openapi: version, info, components } = JSON.parse(readFileSync(SOURCE, "utf8"), withoutTitle);
const models = await openapi({
  openapi: version,
  info,
  paths: {},
  components: { schemas: components.schemas },
});
const interfaces = models.filter((node) => node.name?.text === "components");
const text = await format(HEAD + astToString(interfaces) + GLOBAL, { parser: "typescript", printWidth: 120 });

if (!process.argv.includes("--check")) {
  writeFileSync(TARGET, text);
} else if (readFileSync(TARGET, "utf8") !== text) {
  console.log("types/api.d.ts is not that of docs/openapi.json: npm run types writes it");
  process.exitCode = 1;
}

/** Titles say the names again. A property that is called "title" is no string, but a schema, and stays. */
function withoutTitle(key, value) {
  return key === "title" && typeof value === "string" ? undefined : value;
}
