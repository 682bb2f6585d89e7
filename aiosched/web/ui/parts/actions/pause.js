// The switch that pauses and unpauses a DAG.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { at, may, patch } from "../../lib/api.js";
import { reportDone, toast } from "../dialog.js";

/**
 * Whether a DAG is scheduled, in words.
 * @param {Pick<Api["DagResource"], "is_paused" | "is_stale" | "has_import_errors">} dag
 */
export function scheduledWords(dag) {
  if (dag.is_paused) return "paused";
  return dag.is_stale || dag.has_import_errors ? "not scheduled" : "active";
}

/**
 * A switch that is on unless the DAG is paused.
 * @param {{ dag: Api["DagResource"], onDone?: (response: Answer) => void }} props
 */
export function PauseSwitch({ dag, onDone }) {
  const [requested, setRequested] = useState(/** @type {boolean | null} */ (null));
  const asking = useRef(false);
  useEffect(() => {
    if (!asking.current) setRequested(null);
  }, [dag]); // read again: perhaps somebody else has changed it meanwhile
  /** @param {FieldEvent} event */
  const change = async (event) => {
    const active = event.target.checked;
    asking.current = true;
    setRequested(active);
    try {
      const response = await patch(at("dags", dag.dag_id), { is_paused: !active });
      reportDone(
        response,
        active
          ? `${dag.dag_id} is unpaused.`
          : `${dag.dag_id} is paused: no new tasks start, running ones continue.`,
      );
      onDone?.(response);
    } catch (error) {
      toast(error.message, "danger");
      setRequested(null);
    }
    asking.current = false;
  };
  const words = `${dag.dag_id} is ${scheduledWords(dag)}`;
  return html`
    <input
      type="checkbox"
      class="switch"
      role="switch"
      checked=${requested ?? !dag.is_paused}
      disabled=${!may("operator")}
      aria-label=${words}
      title=${may("operator") ? words : `${words} (changing this requires the operator role)`}
      onChange=${change}
    />
  `;
}
