// The switch that pauses a DAG and lets it run again.
import { html, useEffect, useState } from "../../lib/html.js";
import { at, may, patch } from "../../lib/api.js";
import { tellDone, toast } from "../dialog.js";

/**
 * A switch that is on while the DAG runs.
 * @param {{ dag: Pick<Api["Dag"], "dag_id" | "is_paused">, onDone?: (answer: any) => void }} props
 */
export function PauseSwitch({ dag, onDone }) {
  const [wished, setWished] = useState(null);
  useEffect(() => setWished(null), [dag.is_paused]);
  const change = async (event) => {
    const runs = event.target.checked;
    setWished(runs);
    try {
      const answer = await patch(at("dags", dag.dag_id), { is_paused: !runs });
      tellDone(
        answer,
        runs
          ? `${dag.dag_id} runs again.`
          : `${dag.dag_id} is paused: it starts nothing more, what runs goes on.`,
      );
      onDone?.(answer);
    } catch (error) {
      toast(error.message, "danger");
      setWished(null);
    }
  };
  const words = dag.is_paused ? `${dag.dag_id} is paused` : `${dag.dag_id} is on`;
  return html`
    <input
      type="checkbox"
      class="switch"
      role="switch"
      checked=${wished ?? !dag.is_paused}
      disabled=${!may("operator")}
      aria-label=${words}
      title=${may("operator") ? words : `${words} (changing it needs the role operator)`}
      onChange=${change}
    />
  `;
}
