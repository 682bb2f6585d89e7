// The tries of a task instance with their logs.
import { html } from "../../lib/html.js";
import { at } from "../../lib/api.js";
import { here, href, path, query } from "../../lib/router.js";
import { stateOf } from "../../lib/states.js";
import { duration, secondsBetween } from "../../lib/time.js";
import { Card, Empty, Link, State, When } from "../../parts/basics.js";
import { Folded } from "../../parts/facts.js";
import { LogView } from "../../parts/log/view.js";

const ACTIVE = ["running", "restarting", "shutdown"]; // these write logs; the others wait or are over

export function Log({ task, base, params, tries, name }) {
  const numbers = [...new Set([...tries.map((t) => t.try_number), ...task.logs])]
    .filter((n) => n > 0)
    .sort((a, b) => a - b);
  const chosen = Number(query.value.try) || numbers.at(-1);
  const one = tries.find((t) => t.try_number === chosen);
  if (!numbers.length)
    return html`
      <${Card}>
        <${Empty} title="It has not been tried yet">Its log appears here with the first try.<//>
      <//>
    `;
  const address = (n) =>
    href(here.value.path + "?" + new URLSearchParams([...Object.entries(params), ["try", n]]));
  const running = chosen === task.try_number && ACTIVE.includes(task.state);
  return html`
    <div class="stack tight">
      ${numbers.length > 1 && html`
        <nav class="choices row" aria-label="Tries">
          ${numbers.map((n) => {
            const t = tries.find((each) => each.try_number === n);
            return html`
              <a
                class=${n === chosen ? "choice on" : "choice"}
                aria-current=${n === chosen ? "page" : undefined}
                href=${address(n)}
                title=${stateOf(t?.state).label}
              >
                <${State} name=${t?.state} bare /> Try ${n}
              </a>
            `;
          })}
        </nav>
      `}
      ${one && html`
        <div class="row wide soft">
          ${one.start_date && html`
            <span>
              started <${When} at=${one.start_date} />
            </span>
          `}
          ${one.start_date && html`<span class="tabular">${duration(secondsBetween(one.start_date, one.end_date))}</span>`}
          ${one.hostname && html`
            <span>
              on ${one.hostname}
              ${one.pid ? `, process ${one.pid}` : ""}
            </span>
          `}
          ${one.source_hash && html`
            <span class="sentence">
              code of${" "}
              ${one.version ? html`
                <${Link} to=${`/dags/${encodeURIComponent(task.dag_id)}?tab=code&version=${one.version}`}>
                  version ${one.version}
                <//>
              ` : (
                "no version that is stored"
              )}
              , source <code>${one.source_hash}</code>
            </span>
          `}
          ${one.reason && one.reason !== task.reason && html`<span>${one.reason}</span>`}
        </div>
      `}
      ${one?.details && html`<${Folded} title="Traceback" text=${one.details} />`}
      <${Card} plain>
        <${LogView}
          key=${chosen}
          path=${`${base}/logs/${chosen}`}
          params=${params}
          name=${`${name}.try-${chosen}.log`}
          running=${running}
          failed=${one?.state === "failed" || one?.state === "up_for_retry"}
        />
      <//>
    </div>
  `;
}
