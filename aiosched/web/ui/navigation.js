// Which page stands at which address, and what the navigation lists.
import { Alerts } from "./pages/alerts.js";
import { Assets } from "./pages/assets.js";
import { AssetPage } from "./pages/assets/asset.js";
import { Audit } from "./pages/audit.js";
import { Requests } from "./pages/requests.js";
import { Backfills } from "./pages/backfills.js";
import { DagPage } from "./pages/dag.js";
import { Dags } from "./pages/dags.js";
import { Dependencies } from "./pages/dependencies.js";
import { Home } from "./pages/home.js";
import { ImportErrors } from "./pages/import_errors.js";
import { Inputs } from "./pages/inputs.js";
import { Instances } from "./pages/instances.js";
import { Pools } from "./pages/pools.js";
import { RunPage } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { Schedulers } from "./pages/schedulers.js";
import { Schedules } from "./pages/schedules.js";
import { Secrets } from "./pages/secrets/page.js";
import { Settings } from "./pages/settings.js";
import { TaskPage } from "./pages/task.js";
import { Users } from "./pages/users/page.js";

/** @type {[string, Function][]} */
export const ROUTES = [
  ["/", Home],
  ["/dags", Dags],
  ["/dags/:dag", DagPage],
  ["/dags/:dag/runs/:run", RunPage],
  ["/dags/:dag/runs/:run/tasks/:task", TaskPage],
  ["/runs", Runs],
  ["/task-instances", Instances],
  ["/backfills", Backfills],
  ["/schedules", Schedules],
  ["/inputs", Inputs],
  ["/assets", Assets],
  ["/assets/:asset", AssetPage],
  ["/dependencies", Dependencies],
  ["/pools", Pools],
  ["/schedulers", Schedulers],
  ["/import-errors", ImportErrors],
  ["/alerts", Alerts],
  ["/requests", Requests],
  ["/audit", Audit],
  ["/secrets", Secrets],
  ["/settings", Settings],
  ["/users", Users],
];

/** @type {[string | null, string[][]][]} */
export const SECTIONS = [
  [
    null,
    [
      ["/", "Home", "g h"],
      ["/dags", "DAGs", "g d"],
      ["/runs", "Runs", "g r"],
      ["/task-instances", "Task instances", "g t"],
      ["/backfills", "Backfills", "g b"],
      ["/schedules", "Schedules", "g c"],
      ["/assets", "Assets", "g a"],
      ["/dependencies", "Dependencies", "g y"],
      ["/inputs", "Input", "g i"],
    ],
  ],
  [
    "Operations",
    [
      ["/pools", "Pools", "g p"],
      ["/schedulers", "Schedulers", "g s"],
      ["/import-errors", "Import errors", "g e"],
      ["/alerts", "Alerts", "g n"],
      ["/requests", "Requests", "g l"],
    ],
  ],
  [
    "Administration",
    [
      ["/secrets", "Secrets"],
      ["/settings", "Settings"],
      ["/users", "Users and tokens"],
      ["/audit", "Audit"],
    ],
  ],
];

/** The pages, for the search. */
export const PAGES = SECTIONS.flatMap(([, items]) => items).map(([to, name]) => ({ kind: "page", name, to }));
