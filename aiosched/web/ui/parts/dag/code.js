// The code of a DAG: versions, source with line numbers, and the diff between two versions.
import { html, useMemo } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { highlight } from "../../lib/python.js";
import { useResource } from "../../lib/resources.js";
import { counted, numeral, runTitle } from "../../lib/names.js";
import { path, query, setQuery } from "../../lib/router.js";
import { instant } from "../../lib/time.js";
import { Card, Empty, Link, Shown, State } from "../basics.js";
import { Diff } from "../diff.js";

const MAX_LINES = 20_000; // lines shown

/** @param {{ dagId: string }} props */
export function CodeTab({ dagId }) {
  /** @type {Resource<Api["Page_Version_"]>} */
  const versions = useResource(at("dags", dagId, "versions"), { limit: 100 }, { kinds: ["dag"] });
  return html`
    <${Shown} of=${versions}>
      ${({ items }) =>
        items.length ? html`
          <${Code} dagId=${dagId} versions=${items} />
        ` : html`
          <${Empty} title="No versions yet">A version appears once the file is parsed.<//>
        `
      }
    <//>
  `;
}

/** @param {{ dagId: string, versions: Api["Version"][] }} props */
function Code({ dagId, versions }) {
  const chosen = Number(query.value.version) || versions[0].number;
  const before = versions[versions.findIndex((one) => one.number === chosen) + 1]?.number;
  const against = Number(query.value.against === "previous" ? before : query.value.against) || null;
  const options = versions.map((one) => html`
    <option key=${one.number} value=${one.number}>
      ${one.number} · ${instant(one.created_at).slice(0, 16)}
    </option>
  `);
  const what = query.value.what === "spec" ? "spec" : "source";
  const {
    file,
    bundle,
    bundle_version: code,
    commit_url: url,
  } = versions.find((one) => one.number === chosen) ?? {};
  return html`
    <div class="stack">
      <div class="row">
        <label class="row soft">
          Version${" "}
          <select
            class="input"
            value=${chosen}
            onChange=${(e) =>
              setQuery({ version: Number(e.target.value) === versions[0].number ? null : e.target.value })
            }
          >
            ${options}
          </select>
        </label>
        <label class="row soft">
          compared with${" "}
          <select class="input" value=${against ?? ""} onChange=${(e) => setQuery({ against: e.target.value })}>
            <option value="">nothing</option>
            ${options.filter((_, i) => versions[i].number !== chosen)}
          </select>
        </label>
        ${against === null && before !== undefined && html`
          <button class="button" onClick=${() => setQuery({ against: "previous" })}>
            What changed since version ${before}
          </button>
        `}
        ${against !== null && html`
          <label class="row soft">
            of${" "}
            <select
              class="input"
              value=${what}
              onChange=${(e) => setQuery({ what: e.target.value === "spec" ? "spec" : null })}
            >
              <option value="source">the source</option>
              <option value="spec">the serialized DAG</option>
            </select>
          </label>
        `}
      </div>
      ${code && html`<${FixedCode} bundle=${bundle} code=${code} url=${url} />`}
      <${RunsOf} key=${chosen} dagId=${dagId} version=${chosen} />
      <${Card} plain title=${file ?? `Version ${chosen}`}>
        ${against !== null && against !== chosen ? html`
          <${Difference} dagId=${dagId} from=${against} to=${chosen} what=${what} />
        ` : html`
          <${Source} dagId=${dagId} version=${chosen} />
        `}
      <//>
    </div>
  `;
}

/** @param {{ dagId: string, version: number }} props */
function RunsOf({ dagId, version }) {
  /** @type {Resource<Api["VersionRuns"]>} */
  const found = useResource(at("dags", dagId, "versions", version, "runs"), {}, { kinds: ["run"] });
  const data = found.data.value;
  if (!data) return null;
  if (!data.number) return html`<p class="soft">None of the DAG's newest ${numeral(data.looked_at)} runs ran it.</p>`;
  const words = `${counted(data.number, "run")} of this version${data.failed ? `, ${data.failed} failed` : ""}`;
  return html`
    <details class="folded">
      <summary>${words}</summary>
      <ul class="plain stack tight">
        ${data.runs.map((run) => html`
          <li key=${run.run_id} class="row near">
            <${State} name=${run.state} bare />
            <${Link} to=${path("dags", dagId, "runs", run.run_id)}>${runTitle(run)}<//>
          </li>
        `)}
      </ul>
      ${data.number > data.runs.length && html`
        <p class="soft">and ${counted(data.number - data.runs.length, "older one")}</p>
      `}
    </details>
  `;
}

/** @param {{ bundle: string | null, code: string, url: string | null | undefined }} props */
const FixedCode = ({ bundle, code, url }) => html`
  <p class="soft">
    Runs of this version keep the code of${" "}
    ${bundle ? html`
      the bundle <b>${bundle}</b>
    ` : (
      "the DAGs folder"
    )}${" "}
    at${" "}
    ${url ? html`
      <a href=${url} target="_blank" rel="noreferrer" title=${code}>
        <code>${code.slice(0, 12)}</code>
      </a>
    ` : html`
      <code title=${code}>${code.slice(0, 12)}</code>
    `}
    .
  </p>
`;

/** @param {{ dagId: string, version: number }} props */
function Source({ dagId, version }) {
  /** @type {Resource<Api["VersionDetails"]>} */
  const found = useResource(at("dags", dagId, "versions", version));
  return html`
    <${Shown} of=${found} lines=${12}>
      ${({ source, sources, file }) =>
        source === null ? html`
          <${Empty} title="Source not available">This DAG comes from an application, not from a file.<//>
        ` : html`
          <${Files}
            dagId=${dagId}
            version=${version}
            source=${source}
            modules=${Object.keys(sources ?? {}).filter((name) => name !== file)}
          />
        `
      }
    <//>
  `;
}

/**
 * The DAG's own file, or a module that it imports, and the choice between them.
 * @param {{ dagId: string, version: number, source: string, modules: string[] }} props
 */
function Files({ dagId, version, source, modules }) {
  const module = modules.find((name) => name === query.value.module);
  return html`
    ${modules.length > 0 && html`
      <label class="row soft">
        File${" "}
        <select
          class="input"
          value=${module ?? ""}
          onChange=${(e) => setQuery({ module: e.target.value || null })}
        >
          <option value="">the DAG's own</option>
          ${modules.map((name) => html`
            <option key=${name} value=${name}>
              ${name}
            </option>
          `)}
        </select>
      </label>
    `}
    ${module && html`<${Module} dagId=${dagId} version=${version} name=${module} />`}
    ${!module && html`<${Lines} source=${source} />`}
  `;
}

/** @param {{ dagId: string, version: number, name: string }} props */
function Module({ dagId, version, name }) {
  /** @type {Resource<Api["Module"]>} */
  const found = useResource(at("dags", dagId, "versions", version, "module"), { name });
  return html`
    <${Shown} of=${found} lines=${12}>
      ${({ source, why }) =>
        source === null ? html`
          <${Empty} title="Source not available">${why}<//>
        ` : html`
          <${Lines} source=${source} />
        `
      }
    <//>
  `;
}

/** @param {[string, string]} piece */
const coloured = ([kind, text]) => (kind ? html`<span class=${`py-${kind}`}>${text}</span>` : text);

/** @param {{ source: string }} props */
function Lines({ source }) {
  const lines = useMemo(() => highlight(source).slice(0, MAX_LINES), [source]);
  return html`
    <div class="scroll code" tabindex="0" role="group" aria-label="Source">
      <ol>
        ${lines.map((pieces, i) => html`
          <li key=${i}>
            <code>${pieces.map(coloured)}</code>
          </li>
        `)}
      </ol>
    </div>
  `;
}

/**
 * What is said of a version's own file, or of its serialized DAG, if a diff shows nothing of it.
 * @param {"source" | "spec"} what
 * @param {Api["Difference"]} data
 */
function unchangedWords(what, data) {
  if (what === "spec") return "The serialized DAG is unchanged";
  if (data.source_changed === null) return "The source of one of these versions is not known";
  if (data.source_changed) return "The DAG's own file changed, in nothing that lines show";
  if (!data.modules_known) return "The DAG's own file is unchanged; whether its modules changed is not known";
  if (!data.modules.length) return "The source is unchanged";
  return `The DAG's own file is unchanged: ${data.modules.length === 1 ? "the module" : "the modules"} below changed`;
}

/** @param {{ dagId: string, from: number, to: number, what: "source" | "spec" }} props */
function Difference({ dagId, from, to, what }) {
  /** @type {Resource<Api["Difference"]>} */
  const found = useResource(at("dags", dagId, "versions", from, "diff", to));
  return html`
    <${Shown} of=${found} lines=${8}>
      ${(data) => html`
        <${Structure} changes=${data.structure} />
        ${data[what] ? html`<${Diff} text=${data[what]} />` : html`<${Empty} title=${unchangedWords(what, data)} />`}
        ${what === "source" &&
          data.module_changes.map((/** @type {Api["ModuleChange"]} */ one) => html`
            <${ModuleChange} key=${one.name} change=${one} />
          `)}
      `}
    <//>
  `;
}

/** @param {{ changes: Api["StructureChangeResource"][] }} props */
const Structure = ({ changes }) => html`
  <div class="body">
    ${changes.length ? html`
      <ul class="plain stack tight" aria-label="Changes of the structure">
        ${changes.map(({ about, words }, i) => html`
          <li key=${i}>
            <b>${about}</b> ${words}
          </li>
        `)}
      </ul>
    ` : html`
      <p class="soft">Tasks, edges, schedule and params are the same.</p>
    `}
  </div>
`;

/** @param {{ change: Api["ModuleChange"] }} props */
const ModuleChange = ({ change: { name, change, diff, why } }) => html`
  <details class="folded" open=${diff !== null}>
    <summary>
      <code>${name}</code> ${change}
    </summary>
    ${diff ? html`<${Diff} text=${diff} />` : html`<p class="soft">${why ?? "Nothing that lines show."}</p>`}
  </details>
`;
