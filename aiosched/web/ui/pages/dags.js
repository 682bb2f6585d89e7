// All DAGs: pause switch, schedule, last runs, next run.
import { html } from "../lib/html.js";
import { useList, patch, at } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { Card, Empty, Link, Page, State, Tag, When } from "../parts/basics.js";
import { Table } from "../parts/table.js";
import { toast } from "../parts/dialog.js";

async function setPaused(dag, paused, list) {
  try {
    await patch(at("dags", dag.dag_id), { is_paused: paused });
    list.reload();
  } catch (error) { toast(error.message, "danger"); }
}

export function Dags() {
  const pattern = query.value.search ? `*${query.value.search}*` : null;
  const list = useList("dags", { pattern }, { kinds: ["dag", "run"] });
  const columns = [
    { head: "On", cell: (d) => html`<input type="checkbox" class="switch" checked=${!d.is_paused} aria-label=${`${d.dag_id} runs`} onChange=${(e) => setPaused(d, !e.target.checked, list)} />` },
    { head: "DAG", cell: (d) => html`<${Link} to=${`/dags/${encodeURIComponent(d.dag_id)}`}>${d.dag_id}<//> ${d.tags.map((t) => html`<${Tag}>${t}<//> `)}` },
    { head: "Schedule", cell: (d) => html`<code>${d.schedule || "–"}</code>` },
    { head: "Last run", cell: (d) => d.last_run_state && html`<${State} name=${d.last_run_state} />` },
    { head: "Next run", cell: (d) => html`<${When} at=${d.next_run_after} ago />` },
    { head: "Active runs", right: true, cell: (d) => d.active_runs },
  ];
  const empty = html`<${Empty} title="No DAG yet" command="aiosched init demo">Put a DAG file into the DAGs folder: it appears here when it is parsed.<//>`;
  return html`<${Page} title="DAGs" actions=${html`<input class="input" type="search" placeholder="Search" aria-label="Search DAGs" value=${query.value.search || ""} onInput=${(e) => setQuery({ search: e.target.value })} />`}>
    <${Card} plain><${Table} columns=${columns} list=${list} keyOf=${(d) => d.dag_id} empty=${empty} caption="DAGs" /><//>
  <//>`;
}
