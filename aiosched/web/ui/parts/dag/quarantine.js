// The banner of a DAG in quarantine: what failed, when it is tried again, and a button that tries it now.
import { html, useState } from "../../lib/html.js";
import { at, post } from "../../lib/api.js";
import { now } from "../../lib/time.js";
import { Notice, When } from "../basics.js";
import { reportDone, toast } from "../dialog.js";
import { Allowed, Folded } from "../facts.js";

/**
 * The banner; `onDone` is called after a release.
 * @param {{ dagId: string, quarantine: Api["QuarantineDetails"], onDone: () => void }} props
 */
export function QuarantineBanner({ dagId, quarantine, onDone }) {
  const { failures, traceback } = quarantine;
  return html`
    <${Notice} kind="danger">
      <div class="stack tight grow">
        <div class="row apart">
          <b>This DAG is in quarantine: no runs are created and no tasks start.</b>
          <${Allowed} quiet>
            <${Release} dagId=${dagId} onDone=${onDone} />
          <//>
        </div>
        <span>
          Failed in ${quarantine.place}
          ${failures > 1 ? `, ${failures} times in a row` : ""}: <code>${quarantine.error}</code>
        </span>
        <span>
          In quarantine since <${When} at=${quarantine.since} />; it is tried again${" "}
          ${Date.parse(quarantine.retry_at) > now.value ? html`<${When} at=${quarantine.retry_at} ago />` : "now"}.
        </span>
        ${traceback && html`<${Folded} title="Traceback" text=${traceback} />`}
      </div>
    <//>
  `;
}

/** @param {{ dagId: string, onDone: () => void }} props */
function Release({ dagId, onDone }) {
  const [busy, setBusy] = useState(false);
  const release = async () => {
    setBusy(true);
    try {
      reportDone(
        await post(at("dags", dagId, "release")),
        `${dagId} is released: its scheduler tries it again.`,
      );
      onDone();
    } catch (error) {
      toast(error.message, "danger");
    }
    setBusy(false);
  };
  return html`
    <button class="button small" disabled=${busy} title="Try it again now" onClick=${release}>
      Release
    </button>
  `;
}
