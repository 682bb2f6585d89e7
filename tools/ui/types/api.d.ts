// Written by types.mjs from docs/openapi.json: npm run types

export interface components {
  schemas: {
    /**
     * @description 24 hours, oldest first. `complete` is false if only the newest 20,000 runs were counted.
     *
     *     `errors` are of the newest 200 failed runs. `dag_display_names`: of those of their DAGs that have one.
     */
    Activity: {
      complete: boolean;
      dag_display_names: {
        [key: string]: string;
      };
      errors: components["schemas"]["GroupedError"][];
      hours: components["schemas"]["HourActivity"][];
    };
    /**
     * @description An alert. `owes` is the message that is to be delivered (opened, reminder, recovered, test), not before
     *     `deliver_at`; `told_at` is the last delivery, `failures` counts those that failed since. Nothing is said before
     *     `silenced_until`.
     */
    AlertResource: {
      acknowledged_at: string | null;
      acknowledged_by: string | null;
      dag_ids: string[];
      deliver_at: string | null;
      error: string | null;
      events: number;
      failures: number;
      id: number;
      kind: string;
      last_at: string;
      opened_at: string;
      owes: string | null;
      recovered_at: string | null;
      rule: string;
      run_id: string | null;
      severity: string;
      silenced_until: string | null;
      subject: string;
      text: string;
      told_at: string | null;
    };
    /** @description Whether a rule is paused. */
    AlertRulePause: {
      is_paused: boolean;
    };
    /** @description A rule. `error` is why its last delivery or evaluation failed. One `from_settings` is changed only there. */
    AlertRuleResource: {
      dags: string[];
      error: string | null;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      factor: number | null;
      failed_at: string | null;
      from_settings: boolean;
      is_paused: boolean;
      kind: string;
      name: string;
      notifier: string;
      open_alerts: number;
      owners: string[];
      quiet_from: string | null;
      quiet_until: string | null;
      remind_seconds: number | null;
      run_types: string[];
      seconds: number | null;
      severity: string;
      tags: string[];
      time_zone: string;
    };
    /**
     * @description What a rule watches (`kind`), of which DAGs (globs, tags, owners; empty: all), and where it tells.
     *
     *     `run_types`: of which runs (empty: all); `severity`: info, warning or critical, which messages have.
     *     `seconds`: how long it lasts at least, or how much longer than usual; `factor`: times the usual p95, for long runs.
     */
    AlertRuleUpdate: {
      /** @default [] */
      dags: string[];
      factor?: number | null;
      kind: string;
      notifier: string;
      /** @default [] */
      owners: string[];
      quiet_from?: string | null;
      quiet_until?: string | null;
      remind_seconds?: number | null;
      /** @default [] */
      run_types: string[];
      seconds?: number | null;
      /** @default warning */
      severity: string;
      /** @default [] */
      tags: string[];
      /** @default UTC */
      time_zone: string;
    };
    /** @description Rules by name, and the names of the notifiers that this server's settings have. */
    AlertRules: {
      items: components["schemas"]["AlertRuleResource"][];
      notifiers: string[];
    };
    /** @description A test message that is delivered at the next evaluation: the alert that says what has become of it. */
    AlertTest: {
      alert: number;
    };
    /** @description The answer as the task gets it. */
    Answered: {
      map_index: number;
      options: string[];
      params: {
        [key: string]: unknown;
      };
      run_id: string;
      task_id: string;
    };
    /**
     * @description A task that checks an asset, with its newest ten results. `last` is what it said in the run that reported last:
     *     the worst of its instances there, each by its last try; null: it has not reported. Consumers of the asset wait for
     *     one that `is_blocking`.
     */
    AssetCheckResource: {
      dag_id: string;
      is_blocking: boolean;
      last: components["schemas"]["CheckResultResource"] | null;
      results: components["schemas"]["CheckResultResource"][];
      task_id: string;
    };
    /** @description The checks of an asset by DAG and task. */
    AssetChecksResource: {
      checks: components["schemas"]["AssetCheckResource"][];
    };
    /** @description An event of an asset; the source is null if a person emitted it. */
    AssetEventResource: {
      alias: string | null;
      dag_id: string | null;
      extra: {
        [key: string]: unknown;
      };
      id: number;
      map_index: number | null;
      name: string;
      partition_key: string | null;
      run_id: string | null;
      task_id: string | null;
      timestamp: string;
    };
    /**
     * @description An asset, the DAGs that produce it, the DAGs that wait for it, its newest event and its freshness.
     *
     *     The group of one that is in none is `asset`. Owners and description are those in `extra`, else of its producers.
     *     The next event is expected by `expected_by`: by the schedules of the producers, or `fresh_within` seconds after the
     *     last event. The source of the last event is null if a person emitted it. `check` is the worst of what its checks
     *     said last.
     */
    AssetResource: {
      check: components["schemas"]["CheckStatus"] | null;
      consumers: string[];
      description: string | null;
      expected_by: string | null;
      extra: {
        [key: string]: unknown;
      };
      fresh_within: number | null;
      freshness: components["schemas"]["Freshness"];
      group: string;
      is_active: boolean;
      last_dag_id: string | null;
      last_event_at: string | null;
      last_run_id: string | null;
      last_task_id: string | null;
      name: string;
      owners: string[];
      producers: string[];
      uri: string;
    };
    /**
     * @description Something that needs attention. `dags`: those that failed with one error (at most 20), `number` how many there
     *     are; `search`: a part of that error that all have.
     */
    Attention: {
      dag_id?: string | null;
      /** @default [] */
      dags: string[];
      /** @enum {string} */
      kind:
        | "scheduler"
        | "quarantine"
        | "import_error"
        | "failed"
        | "paused"
        | "late"
        | "slow"
        | "pool"
        | "callback"
        | "lost"
        | "input"
        | "alert"
        | "undelivered";
      /** @default -1 */
      map_index: number;
      /** @default 1 */
      number: number;
      pool?: string | null;
      run_id?: string | null;
      search?: string | null;
      since?: string | null;
      task_id?: string | null;
      words: string;
    };
    /**
     * @description An entry of the audit log: what was done, by whom, from where, to what.
     *
     *     `times` is how many alike it stands for, `command_id` the number of the request.
     */
    AuditEntryResource: {
      address: string | null;
      at: string;
      command_id: number | null;
      dag_id: string | null;
      detail: {
        [key: string]: unknown;
      };
      id: number;
      kind: string;
      object: string | null;
      result: string;
      session_id: number | null;
      times: number;
      token_id: number | null;
      who: string;
    };
    /**
     * @description A new backfill (null for a dry run), and what happens to each date.
     *
     *     `from` and `to` are the first and the last instant that were meant, with offsets of the DAG's time zone.
     */
    BackfillAnswer: {
      dates: components["schemas"]["PlannedDate"][];
      from?: string | null;
      id: number | null;
      left_out?: components["schemas"]["LeftOut"] | null;
      timezone?: string | null;
      to?: string | null;
    };
    /** @description A backfill and the number of its runs in each state. Dates are inclusive. */
    BackfillResource: {
      backwards: boolean;
      completed_at: string | null;
      created_at: string;
      dag_id: string;
      failed: number;
      finished: number;
      from_date: string;
      id: number;
      max_active_runs: number;
      /** @description A newer aiosched may have stored another value. */
      rerun: components["schemas"]["Rerun"] | string;
      running: number;
      /** @enum {string} */
      state: "running" | "paused" | "completed" | "cancelled";
      to_date: string;
      total: number;
    };
    /** @description Questions that wait for an answer, alerts that are open, and DAG files that cannot be imported. */
    Badges: {
      alerts: number;
      import_errors: number;
      inputs: number;
    };
    /** @description A task instance with its tries, oldest first. */
    Bar: {
      map_index: number;
      task_id: string;
      tries: components["schemas"]["Segment"][];
    };
    /**
     * @description What to do to which runs or task instances, exactly to these.
     *
     *     `clear` and `mark` of a run concern its task instances, with `only_failed` the failed ones. `state` is for `mark`,
     *     `note` for `note` (an empty one removes it); `cancel` is for runs. With `dry_run` nothing is changed.
     */
    BulkAction: {
      /** @enum {string} */
      action: "clear" | "mark" | "note" | "cancel";
      /** @default false */
      dry_run: boolean;
      note?: string | null;
      /** @default false */
      only_failed: boolean;
      /** @description the reason, for the audit log */
      reason?: string | null;
      /** @default [] */
      runs: components["schemas"]["RunPlace"][];
      state?: ("success" | "failed" | "skipped" | "queued") | null;
      /** @default [] */
      tasks: components["schemas"]["InstancePlace"][];
    };
    /**
     * @description What is (or was) affected: the number of task instances, of runs and of DAGs, the number of instances in each
     *     state, and the first 1,000; what was refused; and how many requests are stored and wait for a scheduler.
     */
    BulkAnswer: {
      count: number;
      dags: number;
      instances: components["schemas"]["BulkTouched"][];
      refused: components["schemas"]["BulkRefusal"][];
      runs: number;
      states: {
        [key: string]: number;
      };
      waiting: number;
    };
    /** @description Why one of the requests was refused. */
    BulkRefusal: {
      about: string;
      dag_id: string;
      detail: string;
    };
    /** @description A task instance of a DAG and the state it had before. */
    BulkTouched: {
      dag_id: string;
      map_index: number;
      run_id: string;
      state: string | null;
      task_id: string;
      try_number: number;
    };
    /** @description The days of a year that have runs, in order. */
    Calendar: {
      days: components["schemas"]["Day"][];
      year: number;
    };
    /** @description A value of the conf that differs; null where the run does not have it. */
    ChangedValue: {
      after: unknown;
      before: unknown;
      name: string;
    };
    /** @description What one try of a check said. */
    CheckResultResource: {
      checked_at: string;
      map_index: number;
      message: string;
      metadata: {
        [key: string]: unknown;
      };
      run_id: string;
      status: components["schemas"]["CheckStatus"];
      try_number: number;
    };
    /**
     * @description What a check says of its asset.
     * @enum {string}
     */
    CheckStatus: "pass" | "warn" | "fail";
    /**
     * @description What is (or was) affected: the number of instances, their runs, the number in each state, and the first 1,000
     *     instances; `dependents` are the first 1,000 that markers led to, and not counted.
     */
    ClearAnswer: {
      count: number;
      /** @default [] */
      dependents: components["schemas"]["Dependent"][];
      instances: components["schemas"]["Touched"][];
      runs: string[];
      states: {
        [key: string]: number;
      };
    };
    /**
     * @description Task instances that are to run again.
     *
     *     `newest_version` first moves their runs to the newest version. `prevent_running` refuses the request if some of them
     *     are running; otherwise those are stopped. With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs
     *     is cleared, too.
     */
    Clearing: {
      /** @default true */
      dependents: boolean;
      /** @default false */
      downstream: boolean;
      /** @default false */
      dry_run: boolean;
      from_date?: string | null;
      /** @default false */
      future: boolean;
      map_index?: number | null;
      /** @default false */
      newest_version: boolean;
      /** @default false */
      only_failed: boolean;
      /** @default false */
      only_running: boolean;
      /** @default false */
      past: boolean;
      pattern?: string | null;
      /** @default false */
      prevent_running: boolean;
      /** @description the reason, for the audit log */
      reason?: string | null;
      run_ids?: string[] | null;
      task_ids?: string[] | null;
      to_date?: string | null;
      /** @default false */
      upstream: boolean;
    };
    /** @description An upcoming run; `note` explains the effect of a clock change on it. */
    Coming: {
      data_interval_end: string;
      data_interval_start: string;
      logical_date: string;
      note: string | null;
      run_after: string;
    };
    /** @description Upcoming runs, in order. */
    ComingList: {
      items: components["schemas"]["Coming"][];
    };
    /** @description A request and its outcome; `attempts` is how often a scheduler has begun to apply it. */
    CommandResource: {
      applied_at: string | null;
      args: {
        [key: string]: unknown;
      };
      attempts: number;
      created_at: string;
      dag_id: string | null;
      id: number;
      reason: string | null;
      requested_by: string;
      result: {
        [key: string]: unknown;
      } | null;
      /** @description A newer aiosched may have stored another value. */
      state: ("waiting" | "applied" | "refused") | string;
      verb: string;
    };
    /** @description A task in both runs: its instances by state (empty: not in that run), and its seconds from start to end. */
    ComparedTask: {
      after: {
        [key: string]: number;
      };
      before: {
        [key: string]: number;
      };
      seconds_after: number | null;
      seconds_before: number | null;
      task_id: string;
    };
    /** @description A run (`after`) and the one that it is compared with (`before`; null if it is the first one). */
    Comparison: {
      after: components["schemas"]["RunResource"];
      before: components["schemas"]["RunResource"] | null;
      conf: components["schemas"]["ChangedValue"][];
      tasks: components["schemas"]["ComparedTask"][];
    };
    /** @description A connection without its secrets. */
    ConnectionResource: {
      changed_at: string | null;
      changed_by: string | null;
      conn_id: string;
      conn_type: string;
      created_at: string;
      description: string | null;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      team: string | null;
    };
    /**
     * @description A type of connections that an installed provider package has a hook for.
     *
     *     `labels` and `placeholders` are by the field of a connection; `hidden` fields mean nothing for the type. `fields`
     *     are extras: their labels by name.
     */
    ConnectionTypeResource: {
      fields: {
        [key: string]: string;
      };
      hidden: string[];
      labels: {
        [key: string]: string;
      };
      name: string;
      package: string;
      placeholders: {
        [key: string]: string;
      };
      title: string;
    };
    /**
     * @description Totals: task instances of all schedulers (as of their last heartbeats), runs, and what is late.
     *
     *     With `failed_runs_24h_more` at least so many runs failed.
     */
    Counts: {
      deferred: number;
      failed_runs_24h: number;
      /** @default false */
      failed_runs_24h_more: boolean;
      late_dags: number;
      oldest_queued_at: string | null;
      queued: number;
      queued_runs: number;
      running: number;
      running_runs: number;
      scheduled: number;
    };
    /** @description A user's name and password. */
    Credentials: {
      name: string;
      password: string;
    };
    /**
     * @description The current user. Requests that change something send `csrf` in `X-CSRF-Token`.
     *
     *     `role` is the highest one that the user has anywhere, `everywhere` the one for all there is (null: none); `grants`
     *     say where the others hold, as `operator@team:sales`.
     */
    CurrentUser: {
      csrf?: string | null;
      everywhere: ("viewer" | "operator" | "editor" | "admin") | null;
      grants: string[];
      /** @enum {string} */
      login: "none" | "token" | "password" | "oidc";
      name: string;
      /** @enum {string} */
      role: "viewer" | "operator" | "editor" | "admin";
    };
    /** @description What to change about a DAG. */
    DagChange: {
      is_paused: boolean;
      /** @description the reason, for the audit log */
      reason?: string | null;
    };
    /** @description How many DAGs a list has. */
    DagCounts: {
      number: number;
    };
    /**
     * @description The same with the traceback of the error because of which the DAG is in quarantine, and why its file cannot be
     *     imported.
     */
    DagDetails: {
      active_runs: number;
      bundle: string | null;
      bundle_version: string | null;
      dag_display_name: string | null;
      dag_id: string;
      description: string | null;
      file: string | null;
      has_import_errors: boolean;
      import_error: components["schemas"]["DagImportError"] | null;
      is_paused: boolean;
      is_stale: boolean;
      last_parsed_at: string | null;
      last_run_after: string | null;
      last_run_id: string | null;
      last_run_state: string | null;
      max_active_runs: number;
      max_active_tasks: number;
      next_logical_date: string | null;
      next_run_after: string | null;
      owner: string | null;
      quarantine: components["schemas"]["QuarantineDetails"] | null;
      schedule: string | null;
      schedule_timezone: string | null;
      status: string;
      tags: string[];
      version: number | null;
    };
    /** @description A DAG file and its last parse: the duration in seconds, and whether it failed (see `/import-errors`). */
    DagFileResource: {
      dag_ids: string[];
      file: string;
      has_error: boolean;
      parsed_at: string | null;
      seconds: number | null;
      warnings: string[];
    };
    /** @description The boxes (groups before their members), the lines, and the ids on the critical path of the requested run. */
    DagGraph: {
      critical_path: string[];
      edges: components["schemas"]["GraphEdge"][];
      height: number;
      nodes: components["schemas"]["GraphNode"][];
      version: number;
      width: number;
    };
    /** @description Why the DAG's file cannot be imported, on one line, and in which line of the file that is, if known. */
    DagImportError: {
      error: string;
      line: number | null;
    };
    /**
     * @description A DAG and its newest version. `quarantine` is null unless it is in quarantine.
     *
     *     `dag_display_name` is shown in place of its id (null: the id is).
     *
     *     `schedule_timezone` is the time zone whose clock the schedule follows (null: it follows none).
     *
     *     `bundle` and `bundle_version` are those of the newest version; see versions.
     */
    DagResource: {
      active_runs: number;
      bundle: string | null;
      bundle_version: string | null;
      dag_display_name: string | null;
      dag_id: string;
      description: string | null;
      file: string | null;
      has_import_errors: boolean;
      is_paused: boolean;
      is_stale: boolean;
      last_parsed_at: string | null;
      last_run_after: string | null;
      last_run_id: string | null;
      last_run_state: string | null;
      max_active_runs: number;
      max_active_tasks: number;
      next_logical_date: string | null;
      next_run_after: string | null;
      owner: string | null;
      quarantine: components["schemas"]["QuarantineResource"] | null;
      schedule: string | null;
      schedule_timezone: string | null;
      status: string;
      tags: string[];
      version: number | null;
    };
    /** @description The version of the PostgreSQL, and what it lacks by the calendar of its project. */
    DatabaseServer: {
      missing: string | null;
      version: string;
    };
    /** @description The runs of one day (UTC) by state, and the number of upcoming ones. */
    Day: {
      /** @default 0 */
      coming: number;
      counts: {
        [key: string]: number;
      };
      /** Format: date */
      date: string;
    };
    /** @description A period in which a try waited for a trigger; `until` is null while it still waits. */
    DeferredPeriod: {
      since: string;
      until: string | null;
    };
    /** @description Nodes and edges; `is_complete` is false if there are more than were asked for. */
    DependencyGraph: {
      edges: components["schemas"]["DependencyLink"][];
      is_complete: boolean;
      nodes: components["schemas"]["DependencyItem"][];
    };
    /**
     * @description A DAG with the state of its newest run, an asset with its freshness, or a DAG that is unknown until a task
     *     runs. A DAG that does not exist (any more) has `exists` false.
     */
    DependencyItem: {
      /** @default true */
      exists: boolean;
      expected_by?: string | null;
      freshness?: components["schemas"]["Freshness"] | null;
      id: string;
      is_paused?: boolean | null;
      kind: components["schemas"]["NodeKind"];
      last_event_at?: string | null;
      name: string;
      run_id?: string | null;
      state?: string | null;
    };
    /** @description The node `target` depends on the node `source`, because of these tasks; a schedule has none. */
    DependencyLink: {
      kind: components["schemas"]["EdgeKind"];
      source: string;
      target: string;
      task_ids: string[];
    };
    /** @description A task instance of another DAG (or run) that a marker led to. */
    Dependent: {
      dag_id: string;
      map_index: number;
      run_id: string;
      state: string | null;
      task_id: string;
      try_number: number;
    };
    /**
     * @description The differences between two versions as unified diffs; empty without differences.
     *
     *     `structure` is what the serialized DAGs do not have in common, in words.
     *
     *     `source_changed`: whether the DAG's own file differs, also where the diff shows nothing of it; null: unknown.
     *     `modules` are imported from the DAGs folder, and changed, added or removed; `modules_known` is false if that of one
     *     version is unknown.
     */
    Difference: {
      module_changes: components["schemas"]["ModuleChange"][];
      modules: string[];
      modules_known: boolean;
      source: string;
      source_changed: boolean | null;
      spec: string;
      structure: components["schemas"]["StructureChangeResource"][];
    };
    /**
     * @description Which way to follow the edges.
     * @enum {string}
     */
    Direction: "upstream" | "downstream" | "both";
    /**
     * @description Why one thing needs another.
     * @enum {string}
     */
    EdgeKind: "produces" | "scheduled_on" | "reads" | "triggers" | "waits_for";
    /** @description An event that was stored. */
    Emitted: {
      at: string;
      name: string;
    };
    /** @description How many sessions were ended, and how many tokens of `POST /auth/token`. */
    EndedSessions: {
      ended: number;
      tokens: number;
    };
    /** @description Where errors begin in a log: byte offsets, and line numbers from 0; at most 1,000. */
    ErrorLines: {
      lines: number[];
      offsets: number[];
    };
    /**
     * @description The values of each filter that occur in a list, the most frequent first, at most 50 for each.
     *
     *     Entries are counted that all filters let through; for `state` those in any state. `complete` is false if only the
     *     first entries of the list were counted.
     */
    FacetList: {
      complete: boolean;
      counts: components["schemas"]["FacetValue"][];
    };
    /** @description How many entries of a list have a value of a filter; null: those without one. */
    FacetValue: {
      facet: string;
      number: number;
      value: string | null;
    };
    /** @description One field that is wrong in a request. */
    Field: {
      message: string;
      where: string;
    };
    /**
     * @description One step of a range. Durations are in seconds; means of what there was, null where it is not known.
     *
     *     `lag_*` is how long tasks waited from ready to started, `parsing` the seconds of parsing a minute.
     *     `memory` is in bytes.
     */
    FigurePoint: {
      at: string;
      commit_p50: number | null;
      commit_p99: number | null;
      commits_per_second: number | null;
      ended_per_second: number | null;
      lag_p50: number | null;
      lag_p99: number | null;
      loop_lag_p99: number | null;
      memory: number | null;
      parsing: number | null;
      queued: number | null;
      running: number | null;
      schedulers: number;
      waiting: number | null;
    };
    /** @description A range in steps of `step` seconds. A step without a point is one in which no scheduler wrote figures. */
    Figures: {
      points: components["schemas"]["FigurePoint"][];
      since: string;
      step: number;
      until: string;
    };
    /** @description The number of a line, from 0 as in `LogBlocks`; null if no line matches. */
    FoundLine: {
      line: number | null;
    };
    /**
     * @description The state of an asset.
     * @enum {string}
     */
    Freshness: "fresh" | "late" | "unknown";
    /**
     * @description The Gantt chart of a run. `complete` is false if it has more tries or deferred periods than are shown; then
     *     `not_started` is empty, too.
     */
    Gantt: {
      complete: boolean;
      items: components["schemas"]["Bar"][];
      rows: components["schemas"]["GanttRow"][];
    };
    /** @description A task or group of the run's version; `not_started` are the states of instances that have no try. */
    GanttRow: {
      depth: number;
      id: string;
      is_mapped: boolean;
      /** @enum {string} */
      kind: "task" | "group";
      label: string;
      not_started: {
        [key: string]: number;
      };
      task_index: number | null;
    };
    /** @description What was answered. */
    GivenInput: {
      options: string[];
      params: {
        [key: string]: unknown;
      };
    };
    /** @description A grant, such as `viewer@team:alpha`, `operator@tag:etl`, `operator@folder:sales`, `viewer@dags:sales_*`. */
    GrantBody: {
      grant: string;
    };
    /** @description A line between two boxes. */
    GraphEdge: {
      label: string | null;
      points: [number, number][];
      source: string;
      target: string;
    };
    /**
     * @description A box: a task, a group (a folded group stands for all its tasks), or with `neighbours` an asset or another DAG,
     *     whose `refers_to` is its name (null: the file does not say it). `label` is its display name, or its id without that
     *     of the group around it; `counts` are its states in the requested run.
     */
    GraphNode: {
      counts?: {
        [key: string]: number;
      } | null;
      height: number;
      id: string;
      is_folded: boolean;
      is_mapped: boolean;
      /** @enum {string} */
      kind: "task" | "group" | "asset" | "dag";
      label: string;
      operator: string | null;
      parent: string | null;
      refers_to?: string | null;
      trigger_rule: string | null;
      width: number;
      x: number;
      y: number;
    };
    /**
     * @description Columns are runs (in the order of their dates), rows are tasks (in the order of their dependencies).
     *
     *     `cells` has the value of each row for each run: a state, an object of counts by state for several instances, or null
     *     if the run does not have the task. `rows` are those of the newest version.
     */
    Grid: {
      cells: (
        | string
        | {
            [key: string]: number;
          }
        | null
      )[][];
      next_cursor: string | null;
      rows: components["schemas"]["Row"][];
      runs: components["schemas"]["RunResource"][];
      version: number;
    };
    /** @description Failed task instances with the same error, apart from numbers: the newest one, and a text that all have. */
    GroupedError: {
      dag_id: string;
      dags: string[];
      map_index: number;
      number: number;
      run_id: string;
      search: string;
      task_id: string;
      words: string | null;
    };
    /** @description The status of the whole system; its parts only for those who are logged in or send `metrics.token`. */
    HealthReport: {
      components: {
        [key: string]: components["schemas"]["PartStatus"];
      } | null;
      schedulers: components["schemas"]["SchedulerStatus"][] | null;
      status: components["schemas"]["Status"];
    };
    /** @description Something that happened: a try reached a state, or a person made a request (`by`, with a reason). */
    HistoryEvent: {
      at: string;
      by?: string | null;
      command?: number | null;
      detail?: string | null;
      /** @enum {string} */
      kind: "state" | "request";
      state?: string | null;
      try_number?: number | null;
      words: string;
    };
    /** @description The runs that ended in an hour, by state; the last hours also have those that run or wait. */
    HourActivity: {
      at: string;
      states: {
        [key: string]: number;
      };
    };
    /**
     * @description Why a DAG file cannot be imported: a summary, the code around the line, the traceback.
     *
     *     `since`: when that began; `parsed_at`: the last parse, which has found the same.
     */
    ImportProblem: {
      code_frame: string | null;
      dag_ids: string[];
      error: string;
      file: string;
      line: number | null;
      parsed_at: string | null;
      since: string | null;
      traceback: string | null;
    };
    /** @description A param to fill in: its default (null if it is required), and the JSON schema of its values. */
    InputParam: {
      description: string | null;
      json_schema: {
        [key: string]: unknown;
      };
      required: boolean;
      value?: unknown;
    };
    /**
     * @description A question of a task instance: it waits for an answer, was answered, or ended without one.
     *
     *     `respondents` are the people who may answer; if there are none, everyone with the role operator may. `answered_by`
     *     is null if nobody answered in time, and the defaults were chosen.
     */
    InputResource: {
      answer: components["schemas"]["GivenInput"] | null;
      answered_at: string | null;
      answered_by: string | null;
      asked_at: string;
      body: string | null;
      dag_id: string;
      defaults: string[] | null;
      expires_at: string | null;
      map_index: number;
      multiple: boolean;
      options: string[];
      params: {
        [key: string]: components["schemas"]["InputParam"];
      };
      respondents: string[];
      run_id: string;
      /** @enum {string} */
      state: "waiting" | "answered" | "ended";
      subject: string;
      task_id: string;
    };
    /**
     * @description A page of task instances. One request looks at 5,000 at most: with `searched_to` the page is not full (it can be
     *     empty), all runs after that instant were looked at, and the cursor goes on from there.
     */
    InstanceList: {
      items: components["schemas"]["ListedInstance"][];
      next_cursor?: string | null;
      searched_to?: string | null;
    };
    /** @description A task instance; `map_index` -1 for a task that is not mapped. */
    InstancePlace: {
      dag_id: string;
      /** @default -1 */
      map_index: number;
      run_id: string;
      task_id: string;
    };
    /** @description From which date on a backfill leaves dates out, and why. */
    LeftOut: {
      logical_date: string;
      reason: string;
    };
    /** @description A line of a log: its number, from 0 as in `LogBlocks`, and its text without colours. */
    LevelLine: {
      line: number;
      text: string;
    };
    /** @description Lines of a level and above; `next` is where to go on (`after`), or null if these are all. */
    LevelLines: {
      lines: components["schemas"]["LevelLine"][];
      next: number | null;
    };
    /**
     * @description Which DAGs feed which: edges go from a DAG to the assets it produces, and from an asset to the DAGs that wait for
     *     it.
     */
    Lineage: {
      edges: [string, string][];
      nodes: components["schemas"]["LineageNode"][];
    };
    /** @description A DAG or an asset. */
    LineageNode: {
      id: string;
      /** @enum {string} */
      kind: "dag" | "asset";
      label: string;
    };
    /** @description The one-time token of an address that `aiosched serve` or `aiosched web address` has printed. */
    Link: {
      token: string;
    };
    /**
     * @description A task instance in a list across DAGs; `map_index` -1 for a task that is not mapped.
     *
     *     `dag_display_name` and `task_display_name` are shown in place of the ids (null: the id is).
     */
    ListedInstance: {
      dag_display_name: string | null;
      dag_id: string;
      end_date: string | null;
      map_index: number;
      note: string | null;
      operator: string;
      pool: string;
      queued_at: string | null;
      reason: string | null;
      run_after: string;
      run_id: string;
      /** @description A newer aiosched may have stored another value. */
      run_type: components["schemas"]["RunType"] | string;
      seconds: number | null;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["TaskState"] | string;
      task_display_name: string | null;
      task_id: string;
      try_number: number;
    };
    /**
     * @description Where the lines of a log are: one `[offset, line, size, lines]` for each block of whole lines, counted from 0.
     *
     *     `size` is the current size of the log in bytes; `next` is the offset of the first block that is not in this answer,
     *     or null.
     */
    LogBlocks: {
      blocks: number[][];
      complete: boolean;
      next: number | null;
      size: number;
    };
    /** @description The session has ended. `provider` is where the browser goes on, to end the one at the identity provider, too. */
    LoggedOut: {
      provider: string | null;
    };
    /**
     * @description How to log in; `oidc` means by going to /api/v1/login/oidc, and users who have a password can use it, too.
     *
     *     `token`: with the one-time token of the address that `aiosched serve` prints, to /api/v1/login/link.
     */
    LoginMethod: {
      /** @enum {string} */
      login: "none" | "token" | "password" | "oidc";
    };
    /** @description A new token: `token` is shown only this once. */
    MadeToken: {
      facts: components["schemas"]["Token"];
      token: string;
    };
    /**
     * @description A state that a person sets for task instances.
     *
     *     `upstream` and `downstream` add the tasks before and after it, `past` and `future` the runs before and after that
     *     one, by logical date.
     */
    Mark: {
      /** @default false */
      downstream: boolean;
      /** @default false */
      dry_run: boolean;
      /** @default false */
      future: boolean;
      map_index?: number | null;
      /** @default false */
      only_failed: boolean;
      /** @default false */
      only_running: boolean;
      /** @default false */
      past: boolean;
      /** @description the reason, for the audit log */
      reason?: string | null;
      /** @enum {string} */
      state: "success" | "failed" | "skipped";
      /** @default false */
      upstream: boolean;
    };
    /** @description Every scheduler that has published metrics. */
    MetricsSummary: {
      schedulers: components["schemas"]["SchedulerTempo"][];
    };
    /** @description What a version imports from the DAGs folder. `source` is null if it is not kept; `why` says what that means. */
    Module: {
      content_hash: string;
      name: string;
      source: string | null;
      why: string | null;
    };
    /** @description A module that two versions do not have in common. `diff` is null if there is none; `why` says why. */
    ModuleChange: {
      /** @enum {string} */
      change: "added" | "removed" | "changed";
      diff: string | null;
      name: string;
      why: string | null;
    };
    /** @description The options that are chosen, one unless the question allows several, and values for params. */
    NewAnswer: {
      map_index?: number | null;
      options: string[];
      /** @default {} */
      params: {
        [key: string]: unknown;
      };
      /** @description the reason, for the audit log */
      reason?: string | null;
    };
    /**
     * @description Past dates to run, both inclusive; a date without a time is that whole day in the DAG's time zone.
     *
     *     `rerun` says which existing runs run again.
     */
    NewBackfill: {
      /** @default false */
      backwards: boolean;
      /** @default {} */
      conf: {
        [key: string]: unknown;
      };
      dag_id: string;
      /** @default false */
      dry_run: boolean;
      from_date: string;
      /** @default 10 */
      max_active_runs: number;
      /** @description the reason, for the audit log */
      reason?: string | null;
      /** @default missing */
      rerun: components["schemas"]["Rerun"];
      to_date: string;
    };
    /** @description A connection to store; replaces the whole connection. A null team keeps the present one, an empty one is none. */
    NewConnection: {
      conn_type: string;
      description?: string | null;
      /** @default {} */
      extra: {
        [key: string]: unknown;
      };
      host?: string | null;
      login?: string | null;
      password?: string | null;
      port?: number | null;
      schema?: string | null;
      team?: string | null;
    };
    /** @description An event to emit, as a task would; with a `partition_key` about that partition of the asset. */
    NewEvent: {
      /** @default {} */
      extra: {
        [key: string]: unknown;
      };
      partition_key?: string | null;
      /** @description the reason, for the audit log */
      reason?: string | null;
    };
    /** @description A folder to give to a team. */
    NewFolder: {
      folder: string;
    };
    /**
     * @description A run to create.
     *
     *     Without a logical date it has no data interval; with a `partition_key` it is about that partition of its assets.
     */
    NewRun: {
      /** @default {} */
      conf: {
        [key: string]: unknown;
      };
      debounce?: number | null;
      expires?: string | null;
      logical_date?: string | null;
      partition_key?: string | null;
      /** @default 0 */
      priority: number;
      /** @description the reason, for the audit log */
      reason?: string | null;
      run_after?: string | null;
      run_id?: string | null;
      traceparent?: string | null;
      unique?: string | null;
      /** @default false */
      unpause: boolean;
    };
    /** @description Runs of one DAG to create. */
    NewRuns: {
      /** @description the reason, for the audit log */
      reason?: string | null;
      runs: components["schemas"]["RunOfBatch"][];
      /** @default false */
      unpause: boolean;
    };
    /** @description When a schedule starts runs, and their conf: one of `cron`, `every` and `at`. */
    NewSchedule: {
      at?: string | null;
      /** @default false */
      catchup: boolean;
      /** @default {} */
      conf: {
        [key: string]: unknown;
      };
      cron?: string | null;
      end?: string | null;
      every?: number | null;
      paused?: boolean | null;
      /** @description the reason, for the audit log */
      reason?: string | null;
      start?: string | null;
      /** @default UTC */
      timezone: string;
    };
    /**
     * @description What is silenced (give one of `alert`, a number, `dag_id` and `tag`), for how many seconds, and why.
     *
     *     A silence of an alert holds if it recovers and opens again.
     */
    NewSilence: {
      alert?: number | null;
      dag_id?: string | null;
      reason: string;
      seconds: number;
      tag?: string | null;
    };
    /** @description A team to create, with its folders. */
    NewTeam: {
      description?: string | null;
      /** @default [] */
      folders: string[];
      name: string;
    };
    /**
     * @description A token to create for oneself, or for a service account as an administrator (`owner`).
     *
     *     `days` until it expires, at most `web.max_token_days`; null: never, if there is no such limit. `read_only`: it
     *     answers only requests that change nothing. With `grants`, such as `viewer@tag:etl`, it can do only what one of them
     *     and one of its owner's covers.
     */
    NewToken: {
      /** @default 90 */
      days: number | null;
      grants?: string[] | null;
      label: string;
      owner?: string | null;
      /** @default false */
      read_only: boolean;
      /**
       * @default viewer
       * @enum {string}
       */
      role: "viewer" | "operator" | "editor" | "admin";
    };
    /** @description A user to create: a person with a password, or a service account without one. */
    NewUser: {
      /**
       * @default person
       * @enum {string}
       */
      kind: "person" | "service";
      name: string;
      password?: string | null;
      /** @enum {string} */
      role: "none" | "viewer" | "operator" | "editor" | "admin";
    };
    /** @description A view to share with a team, or (null) with everybody. */
    NewView: {
      name: string;
      /** @enum {string} */
      page: "dags" | "runs" | "task-instances";
      query: string;
      team?: string | null;
    };
    /**
     * @description What a node is.
     * @enum {string}
     */
    NodeKind: "dag" | "asset" | "unknown";
    /** @description A note; an empty one removes it. With `was`, the note as it was read, it is refused if that is another by now. */
    NoteText: {
      note: string;
      was?: string | null;
    };
    /** @description A note as it is stored. */
    Noted: {
      map_index?: number | null;
      note: string | null;
      run_id: string;
      task_id?: string | null;
    };
    /** @description A link of an operator to where its work can be seen. */
    OperatorLink: {
      name: string;
      url: string;
    };
    Page_AlertResource_: {
      items: components["schemas"]["AlertResource"][];
      next_cursor?: string | null;
    };
    Page_AssetEventResource_: {
      items: components["schemas"]["AssetEventResource"][];
      next_cursor?: string | null;
    };
    Page_AssetResource_: {
      items: components["schemas"]["AssetResource"][];
      next_cursor?: string | null;
    };
    Page_AuditEntryResource_: {
      items: components["schemas"]["AuditEntryResource"][];
      next_cursor?: string | null;
    };
    Page_BackfillResource_: {
      items: components["schemas"]["BackfillResource"][];
      next_cursor?: string | null;
    };
    Page_CommandResource_: {
      items: components["schemas"]["CommandResource"][];
      next_cursor?: string | null;
    };
    Page_ConnectionResource_: {
      items: components["schemas"]["ConnectionResource"][];
      next_cursor?: string | null;
    };
    Page_ConnectionTypeResource_: {
      items: components["schemas"]["ConnectionTypeResource"][];
      next_cursor?: string | null;
    };
    Page_DagFileResource_: {
      items: components["schemas"]["DagFileResource"][];
      next_cursor?: string | null;
    };
    Page_DagResource_: {
      items: components["schemas"]["DagResource"][];
      next_cursor?: string | null;
    };
    Page_HistoryEvent_: {
      items: components["schemas"]["HistoryEvent"][];
      next_cursor?: string | null;
    };
    Page_ImportProblem_: {
      items: components["schemas"]["ImportProblem"][];
      next_cursor?: string | null;
    };
    Page_InputResource_: {
      items: components["schemas"]["InputResource"][];
      next_cursor?: string | null;
    };
    Page_RunResource_: {
      items: components["schemas"]["RunResource"][];
      next_cursor?: string | null;
    };
    Page_ScheduleResource_: {
      items: components["schemas"]["ScheduleResource"][];
      next_cursor?: string | null;
    };
    Page_SessionResource_: {
      items: components["schemas"]["SessionResource"][];
      next_cursor?: string | null;
    };
    Page_SilenceResource_: {
      items: components["schemas"]["SilenceResource"][];
      next_cursor?: string | null;
    };
    Page_Tag_: {
      items: components["schemas"]["Tag"][];
      next_cursor?: string | null;
    };
    Page_TaskInstanceResource_: {
      items: components["schemas"]["TaskInstanceResource"][];
      next_cursor?: string | null;
    };
    Page_TeamResource_: {
      items: components["schemas"]["TeamResource"][];
      next_cursor?: string | null;
    };
    Page_Token_: {
      items: components["schemas"]["Token"][];
      next_cursor?: string | null;
    };
    Page_Try_: {
      items: components["schemas"]["Try"][];
      next_cursor?: string | null;
    };
    Page_User_: {
      items: components["schemas"]["User"][];
      next_cursor?: string | null;
    };
    Page_VariableResource_: {
      items: components["schemas"]["VariableResource"][];
      next_cursor?: string | null;
    };
    Page_Version_: {
      items: components["schemas"]["Version"][];
      next_cursor?: string | null;
    };
    Page_ViewResource_: {
      items: components["schemas"]["ViewResource"][];
      next_cursor?: string | null;
    };
    Page_XCom_: {
      items: components["schemas"]["XCom"][];
      next_cursor?: string | null;
    };
    /** @description The status of one part of the system. */
    PartStatus: {
      detail: string;
      fix?: string | null;
      status: components["schemas"]["Status"];
    };
    /**
     * @description A partition of an asset, its newest event, and the newest run of a producer about it (`state` is the run's).
     *
     *     `is_made`: it was produced, and no later run has failed or goes on.
     */
    PartitionResource: {
      dag_id: string | null;
      events: number;
      is_made: boolean;
      key: string;
      last_event_at: string | null;
      run_id: string | null;
      state: string | null;
    };
    /** @description The partitions of an asset by key; not `is_complete`: there are older events or runs than were looked at. */
    PartitionsResource: {
      is_complete: boolean;
      partitions: components["schemas"]["PartitionResource"][];
    };
    /** @description What happens to a date: its run is created, run again, or left alone. */
    PlannedDate: {
      fate: string;
      logical_date: string;
    };
    /**
     * @description One step of a range: means of slots, used slots, queued slots and waiting task instances.
     *
     *     `slots` is -1 for no limit; null, and so `open`, if nothing used the pool or waited for it.
     */
    PoolFigurePoint: {
      at: string;
      open: number | null;
      queued: number | null;
      slots: number | null;
      used: number | null;
      waiting: number | null;
    };
    /** @description A range in steps of `step` seconds. A step without a point is one in which no scheduler wrote figures. */
    PoolHistory: {
      points: components["schemas"]["PoolFigurePoint"][];
      since: string;
      step: number;
      until: string;
    };
    /**
     * @description A page of pools. The first one has what is `starving`: pools that are full while tasks wait, and pools and
     *     executors that can never give a slot to tasks that wait for one.
     */
    PoolList: {
      items: components["schemas"]["PoolResource"][];
      next_cursor?: string | null;
      /** @default [] */
      starving: components["schemas"]["StarvingResource"][];
    };
    /**
     * @description A pool. `slots` is -1 for no limit (then `open` is null); 0 lets nothing run.
     *
     *     `rate` is the most attempts that start per period, such as `100/min`.
     */
    PoolResource: {
      description: string | null;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      include_deferred: boolean;
      name: string;
      open: number | null;
      rate: string | null;
      slots: number;
      team: string | null;
      used: number;
    };
    /**
     * @description The values to set; null leaves a value unchanged, and an empty team or rate is none.
     *
     *     A rate is a number of starts and a period in s, min, h or day: `100/min`, `5/30s`.
     */
    PoolUpdate: {
      description?: string | null;
      include_deferred?: boolean | null;
      rate?: string | null;
      reason?: string | null;
      slots: number;
      team?: string | null;
    };
    /** @description The body of every error. `code` is stable; `fields` says what is wrong with which field of an invalid request. */
    ProblemDetails: {
      code: string;
      detail: string;
      fields?: components["schemas"]["Field"][] | null;
      status: number;
      title: string;
      /** @default about:blank */
      type: string;
    };
    /** @description The number of values, their median and their 99th percentile in seconds (null without values). */
    Quantiles: {
      count: number;
      p50: number | null;
      p99: number | null;
    };
    /** @description The same with the traceback of the last failure. */
    QuarantineDetails: {
      error: string;
      failures: number;
      place: string;
      retry_at: string;
      since: string;
      traceback: string | null;
    };
    /**
     * @description An unforeseen error concerned the DAG: nothing of it is decided until it is tried again at `retry_at`, or now on
     *     request. `place` failed, in words, with `error`: the last of `failures` in a row, of which the first was at
     *     `since`.
     */
    QuarantineResource: {
      error: string;
      failures: number;
      place: string;
      retry_at: string;
      since: string;
    };
    /**
     * @description The tasks that hold slots (longest first, at most 200), and those that wait (in the order of service).
     *
     *     The order is that of each scheduler; limits of a DAG can let a task overtake. Only the first page has the holders.
     *     `waiting` is how many wait in all; 10,000 means at least that many.
     */
    Queue: {
      holders: components["schemas"]["SlotUser"][];
      items: components["schemas"]["SlotUser"][];
      next_cursor: string | null;
      waiting: number;
    };
    /** @description The reason for a request. */
    ReasonBody: {
      /** @description the reason, for the audit log */
      reason?: string | null;
    };
    /** @description A schedule that is gone. */
    RemovedSchedule: {
      name: string;
    };
    /**
     * @description The template fields by name, as a try had them; secrets are masked, and long values cut.
     *
     *     `fields` is null if none are stored: the task has not run, has no templates, or they are not kept any longer.
     *     `try_number` is null for what was rendered on request, as the next try would see it.
     */
    Rendered: {
      fields: {
        [key: string]: unknown;
      } | null;
      try_number: number | null;
    };
    /**
     * @description Which existing runs a backfill reruns.
     * @enum {string}
     */
    Rerun: "missing" | "failed" | "all";
    /**
     * @description A row of the grid: a task, or a group that holds the rows below it with a greater depth.
     *
     *     `label` is its display name, or its id without that of the group around it.
     */
    Row: {
      depth: number;
      id: string;
      is_mapped: boolean;
      /** @enum {string} */
      kind: "task" | "group";
      label: string;
      task_index: number | null;
    };
    /** @description One of the last runs. */
    RunBar: {
      run_after: string;
      run_id: string;
      seconds: number | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
    };
    /** @description A run with the number of its task instances in each state; `mapped` has those of each mapped task. */
    RunDetails: {
      conf: {
        [key: string]: unknown;
      };
      dag_display_name: string | null;
      dag_id: string;
      data_interval_end: string | null;
      data_interval_start: string | null;
      end_date: string | null;
      key: number;
      logical_date: string | null;
      mapped: {
        [key: string]: {
          [key: string]: number;
        };
      };
      note: string | null;
      partition_date: string | null;
      partition_key: string | null;
      queued_at: string | null;
      reason: string | null;
      run_after: string;
      run_id: string;
      /** @description A newer aiosched may have stored another value. */
      run_type: components["schemas"]["RunType"] | string;
      seconds: number | null;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
      tasks: {
        [key: string]: number;
      };
      triggered_by: string;
      version: number;
    };
    /** @description The values of the filters of runs. `number` runs match all of them; with `more` at least so many. */
    RunFacetList: {
      complete: boolean;
      counts: components["schemas"]["FacetValue"][];
      more: boolean;
      number: number;
    };
    /** @description A state that a person sets for a run and for everything unfinished in it; `queued` lets it run again. */
    RunMark: {
      /** @description the reason, for the audit log */
      reason?: string | null;
      /** @enum {string} */
      state: "success" | "failed" | "queued";
    };
    /**
     * @description A run to create, as one of a batch.
     *
     *     Without a logical date it has no data interval; with a `partition_key` it is about that partition of its assets.
     */
    RunOfBatch: {
      /** @default {} */
      conf: {
        [key: string]: unknown;
      };
      debounce?: number | null;
      expires?: string | null;
      logical_date?: string | null;
      partition_key?: string | null;
      /** @default 0 */
      priority: number;
      run_after?: string | null;
      run_id?: string | null;
      traceparent?: string | null;
      unique?: string | null;
    };
    /** @description A run. */
    RunPlace: {
      dag_id: string;
      run_id: string;
    };
    /**
     * @description A run. `key` is its number in the database, `reason` says why it failed, `seconds` is its duration.
     *
     *     `dag_display_name` is shown in place of the id of its DAG (null: the id is).
     *
     *     `partition_key` is that of the partition of assets that it is about, `partition_date` the instant of that key.
     */
    RunResource: {
      conf: {
        [key: string]: unknown;
      };
      dag_display_name: string | null;
      dag_id: string;
      data_interval_end: string | null;
      data_interval_start: string | null;
      end_date: string | null;
      key: number;
      logical_date: string | null;
      note: string | null;
      partition_date: string | null;
      partition_key: string | null;
      queued_at: string | null;
      reason: string | null;
      run_after: string;
      run_id: string;
      /** @description A newer aiosched may have stored another value. */
      run_type: components["schemas"]["RunType"] | string;
      seconds: number | null;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
      triggered_by: string;
      version: number;
    };
    /**
     * @description The state of a DAG run.
     * @enum {string}
     */
    RunState: "queued" | "running" | "success" | "failed";
    /**
     * @description What created a run; the first part of its run id.
     * @enum {string}
     */
    RunType: "scheduled" | "manual" | "backfill" | "asset_triggered";
    /**
     * @description A schedule of a DAG: one of `cron` (in `timezone`), `every` (seconds) and `at`.
     *
     *     `last_at` is the instant of its last run, `last_state` the state of that, or `refused` or `waiting` for the request
     *     for it; `error` says why it was refused, or why the schedule has stopped.
     */
    ScheduleResource: {
      at: string | null;
      catchup: boolean;
      conf: {
        [key: string]: unknown;
      };
      cron: string | null;
      dag_id: string;
      end: string | null;
      error: string | null;
      every: number | null;
      is_paused: boolean;
      last_at: string | null;
      last_state: string | null;
      name: string;
      next_at: string | null;
      start: string | null;
      summary: string;
      timezone: string;
    };
    /**
     * @description One scheduler of the fleet.
     *
     *     `lease_age` in seconds; `figures` are its metrics as of the last heartbeat. `owned` are the numbers of its
     *     partitions, `partitions` is their count, `load` how many rows of task instances are stored for them in a second.
     */
    SchedulerResource: {
      executor: string;
      figures: {
        [key: string]: unknown;
      } | null;
      hostname: string;
      incarnation: number;
      lease_age: number;
      load: number;
      name: string;
      owned: number[];
      partitions: number;
      pid: number;
      slots: number;
      started_at: string;
      /** @enum {string} */
      status: "alive" | "stalled" | "draining" | "dead";
      version: string;
    };
    /** @description One scheduler of the fleet. */
    SchedulerStatus: {
      hostname: string;
      lease_age: number;
      name: string;
      partitions: number;
      started_at: string;
      status: string;
    };
    /**
     * @description How fast a scheduler was in the last `seconds`: since this server's first sample, a few minutes ago at most.
     *
     *     `task_lag`: from a task's last dependency to its start. `schedule_delay`: from the instant at which a run may start
     *     to its start. `commit`: duration of a commit. `loop_lag`: lag of its event loop.
     */
    SchedulerTempo: {
      alive: boolean;
      commit: components["schemas"]["Quantiles"];
      commits_per_second: number;
      incarnation: number;
      loop_lag: components["schemas"]["Quantiles"];
      name: string;
      schedule_delay: components["schemas"]["Quantiles"];
      seconds: number;
      task_lag: components["schemas"]["Quantiles"];
      tasks_per_commit: number | null;
      tasks_per_second: number;
    };
    /** @description All schedulers that are known; `database` is for those who may see all DAGs. */
    Schedulers: {
      database?: components["schemas"]["DatabaseServer"] | null;
      items: components["schemas"]["SchedulerResource"][];
    };
    /**
     * @description Something that was found. `name` matches what was typed, or `display_name`, which is shown in place of it (null:
     *     the name is); `match` is 0 for the whole name, 4 for its letters.
     */
    SearchHit: {
      dag_id?: string | null;
      display_name?: string | null;
      /** @enum {string} */
      kind: "dag" | "task" | "run" | "asset" | "pool";
      match: number;
      name: string;
      state?: string | null;
    };
    /** @description What was found, the best matches first. */
    SearchResult: {
      items: components["schemas"]["SearchHit"][];
    };
    /** @description A name in one place: a backend, `environment` or `database`. `hidden_by` is the place that counts instead. */
    SecretSource: {
      hidden_by: string | null;
      /** @enum {string} */
      kind: "variable" | "connection";
      name: string;
      source: string;
    };
    /** @description All names by kind and name. `problems`: which backends could not be asked. */
    SecretSources: {
      items: components["schemas"]["SecretSource"][];
      problems: string[];
    };
    /** @description The period of one try; `deferred` are the periods within it, in order. */
    Segment: {
      deferred?: components["schemas"]["DeferredPeriod"][];
      end_date: string | null;
      queued_at: string | null;
      scheduled_at: string | null;
      start_date: string | null;
      state: string | null;
      try_number: number;
    };
    /** @description A browser in which a user is logged in. `address` is where the login came from. */
    SessionResource: {
      address: string;
      agent: string;
      created_at: string;
      expires_at: string;
      id: number;
      /** @default false */
      is_current: boolean;
      last_used_at: string;
      user: string;
    };
    /** @description A setting of the web server's process; secrets are masked. */
    Setting: {
      default: unknown;
      description: string | null;
      key: string;
      value: unknown;
    };
    /** @description All settings, in the order of their sections. */
    SettingsList: {
      items: components["schemas"]["Setting"][];
    };
    /** @description A silence: nothing is said before `ends_at` about one alert (`rule` and `subject`), a DAG, or a tag. */
    SilenceResource: {
      created_at: string;
      created_by: string;
      dag_id: string | null;
      ended_by: string | null;
      ends_at: string;
      id: number;
      reason: string;
      rule: string | null;
      subject: string | null;
      tag: string | null;
    };
    /** @description A task instance that holds slots of a pool or waits for them, since when and for how many seconds. */
    SlotUser: {
      dag_id: string;
      map_index: number;
      run_id: string;
      seconds: number | null;
      since: string | null;
      slots: number;
      state: string;
      task_id: string;
      weight: number;
    };
    /**
     * @description A pool or an executor that tasks wait for, as of the schedulers' last heartbeats: `words` say why, and how many
     *     they are. `exists`: it is a pool of the list.
     */
    StarvingResource: {
      exists: boolean;
      kind: string;
      name: string;
      words: string;
    };
    /** @description The last runs of a DAG (at most 30, oldest first), their success rate, and their usual durations in seconds. */
    Statistics: {
      dag_id: string;
      last_runs: components["schemas"]["RunBar"][];
      p50: number | null;
      p95: number | null;
      success_rate: number | null;
    };
    /** @description Statistics of several DAGs. */
    StatisticsList: {
      items: components["schemas"]["Statistics"][];
    };
    /**
     * @description The status of one part; that of the whole is the worst one.
     * @enum {string}
     */
    Status: "healthy" | "degraded" | "unhealthy" | "unknown";
    /** @description The result of storing. */
    Stored: {
      /** @enum {string} */
      change: "created" | "changed" | "unchanged" | "skipped";
      name: string;
    };
    /** @description A difference of structure: `about` is a task, a param, the schedule …, `words` says what is different. */
    StructureChangeResource: {
      about: string;
      words: string;
    };
    /** @description The content of the first page. `dag_display_names`: of those DAGs that it names and that have one. */
    Summary: {
      attention: components["schemas"]["Attention"][];
      components: {
        [key: string]: components["schemas"]["PartStatus"];
      };
      counts: components["schemas"]["Counts"];
      dag_display_names: {
        [key: string]: string;
      };
      status: components["schemas"]["Status"];
    };
    /** @description A tag and the number of DAGs with it, stale ones excluded. */
    Tag: {
      dags: number;
      tag: string;
    };
    /**
     * @description A task of a DAG, with its direct upstream and downstream tasks.
     *
     *     `task_display_name` is shown in place of its id (null: the id is).
     */
    TaskDefinition: {
      depends_on_past: boolean;
      doc: string | null;
      downstream: string[];
      executor: string | null;
      group_id: string | null;
      is_mapped: boolean;
      is_setup: boolean;
      is_teardown: boolean;
      operator: string;
      owner: string;
      pool: string;
      pool_slots: number;
      priority_weight: number;
      retries: number;
      task_display_name: string | null;
      task_id: string;
      task_index: number;
      trigger_rule: string;
      upstream: string[];
    };
    /** @description A task instance with the task's definition in its DAG version, the tries that have logs, and its links. */
    TaskDetails: {
      dag_display_name: string | null;
      dag_id: string;
      definition: components["schemas"]["TaskDefinition"];
      end_date: string | null;
      links: components["schemas"]["OperatorLink"][];
      logs: number[];
      map_index: number;
      map_label: string | null;
      max_tries: number;
      next_at: string | null;
      note: string | null;
      operator: string;
      pool: string;
      queued_at: string | null;
      reason: string | null;
      run_id: string;
      run_key: number;
      scheduled_at: string | null;
      seconds: number | null;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["TaskState"] | string;
      task_display_name: string | null;
      task_id: string;
      task_index: number;
      template_fields: {
        [key: string]: unknown;
      };
      try_number: number;
    };
    /**
     * @description A task instance; `map_index` -1 for a task that is not mapped.
     *
     *     `map_label` is its rendered `map_index_template`, stored when it ends. `task_display_name` is shown in place of the
     *     id of its task (null: the id is).
     */
    TaskInstanceResource: {
      end_date: string | null;
      map_index: number;
      map_label: string | null;
      max_tries: number;
      next_at: string | null;
      note: string | null;
      operator: string;
      pool: string;
      queued_at: string | null;
      reason: string | null;
      scheduled_at: string | null;
      seconds: number | null;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["TaskState"] | string;
      task_display_name: string | null;
      task_id: string;
      task_index: number;
      try_number: number;
    };
    /**
     * @description The state of a task instance. `NONE` waits for its dependencies.
     * @enum {string}
     */
    TaskState:
      | "none"
      | "scheduled"
      | "queued"
      | "running"
      | "restarting"
      | "shutdown"
      | "up_for_retry"
      | "up_for_reschedule"
      | "deferred"
      | "success"
      | "skipped"
      | "failed"
      | "upstream_failed"
      | "removed";
    /** @description A task over these runs: in how many it was, failed and was tried again, and what its successes took. */
    TaskTrend: {
      failed: number;
      p50: number | null;
      p95: number | null;
      retries: number;
      runs: number;
      task_id: string;
    };
    /** @description All tasks of a DAG, in the DAG's order. */
    Tasks: {
      items: components["schemas"]["TaskDefinition"][];
    };
    /**
     * @description A team. Its folders are paths below the DAGs folder (empty: all of it) or, as `bundle:path`, of a bundle.
     *
     *     `dags` is the number of its DAGs that are not stale.
     */
    TeamResource: {
      created_at: string;
      dags: number;
      description: string | null;
      folders: string[];
      name: string;
    };
    /**
     * @description Runs within a period (latest start first), and upcoming ones (in order).
     *
     *     `dag_display_names`: of those of their DAGs that have one.
     */
    Timeline: {
      coming: components["schemas"]["TimelineComing"][];
      dag_display_names: {
        [key: string]: string;
      };
      runs: components["schemas"]["TimelineRun"][];
      since: string;
      until: string;
    };
    /** @description The next scheduled run of a DAG. */
    TimelineComing: {
      dag_id: string;
      logical_date: string | null;
      run_after: string;
    };
    /** @description A run on the timeline; one without an end is still running. */
    TimelineRun: {
      dag_id: string;
      end_date: string | null;
      run_id: string;
      /** @description A newer aiosched may have stored another value. */
      run_type: components["schemas"]["RunType"] | string;
      start_date: string | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
    };
    /**
     * @description A token, without its secret value. With `grants` it can do only what one of them covers; null: all that its owner
     *     can.
     */
    Token: {
      created_at: string;
      expires_at: string | null;
      grants: string[] | null;
      id: number;
      label: string;
      last_used_at: string | null;
      owner: string;
      read_only: boolean;
      /** @description A newer aiosched may have stored another value. */
      role: ("viewer" | "operator" | "editor" | "admin") | string;
    };
    /** @description A task instance and the state it had before. */
    Touched: {
      map_index: number;
      run_id: string;
      state: string | null;
      task_id: string;
      try_number: number;
    };
    /**
     * @description A run, or a task in it. `at` is the run's date; times are in seconds.
     *
     *     `late` is how long after `run_after` the run began, `landed` how long after it the run ended. `is_outlier`: it took
     *     much longer than the others.
     */
    TrendPoint: {
      at: string;
      is_outlier: boolean;
      landed: number | null;
      late: number | null;
      retries: number;
      run_id: string;
      seconds: number | null;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
    };
    /**
     * @description The last runs in the order of their dates, with the usual durations of successful ones in seconds.
     *
     *     With `task_id`, `points` are about this task. `tasks` are those of the newest version, the slowest first.
     */
    Trends: {
      p50: number | null;
      p95: number | null;
      points: components["schemas"]["TrendPoint"][];
      task_id: string | null;
      tasks: components["schemas"]["TaskTrend"][];
    };
    /** @description What became of a run of a batch: its id, or why it was not created, or the request that still waits. */
    Triggered: {
      command?: number | null;
      error?: string | null;
      run_id?: string | null;
    };
    /** @description What became of the runs of a batch, in the order in which they were asked for. */
    TriggeredRuns: {
      runs: components["schemas"]["Triggered"][];
    };
    /**
     * @description One try. `details` is the traceback.
     *
     *     `version` is the DAG version whose code it ran (null: that version is not stored), `source_hash` the hash of that
     *     code.
     */
    Try: {
      details: string | null;
      end_date: string | null;
      hostname: string | null;
      pid: number | null;
      queued_at: string | null;
      reason: string | null;
      seconds: number | null;
      source_hash: string | null;
      start_date: string | null;
      state: string;
      try_number: number;
      version: number | null;
    };
    /**
     * @description A user. A person logs in, a service account only has tokens, `local` uses a server at a loopback address.
     *
     *     `role` holds everywhere; `grants` hold for some DAGs, as `operator@team:sales`. `issuer` is the identity provider
     *     that a person logs in with, `groups` are those there, as of the last login.
     */
    User: {
      created_at: string;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      grants: string[];
      groups: string[];
      has_password: boolean;
      is_disabled: boolean;
      issuer: string | null;
      /** @description A newer aiosched may have stored another value. */
      kind: ("person" | "service" | "local") | string;
      name: string;
      /** @description A newer aiosched may have stored another value. */
      role: ("none" | "viewer" | "operator" | "editor" | "admin") | string;
    };
    /**
     * @description What to change; null leaves a value unchanged. Any change ends the user's sessions.
     *
     *     A new password also ends the user's tokens; with `keep_tokens`, or if it is one's own, only those of /auth/token,
     *     and one's own session goes on.
     */
    UserChange: {
      is_disabled?: boolean | null;
      /** @default false */
      keep_tokens: boolean;
      password?: string | null;
      role?: ("none" | "viewer" | "operator" | "editor" | "admin") | null;
    };
    /**
     * @description A variable. `value` is as people may see it; `hidden` says why it is null, or has `***` in it.
     *
     *     `role`: it is for the role editor. `secret`: by its key, by what is in it, or since somebody said so (`is_secret`
     *     for the first and the last). `long`: ask for this variable alone. `unreadable`: no key decrypts it.
     *     `changed_at` and `changed_by` are null if it was last changed before aiosched noted them.
     */
    VariableResource: {
      changed_at: string | null;
      changed_by: string | null;
      created_at: string;
      description: string | null;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      hidden: ("role" | "secret" | "long" | "unreadable") | null;
      is_secret: boolean;
      key: string;
      team: string | null;
      value: string | null;
    };
    /**
     * @description A value to store; a null description or team keeps the existing one, an empty one is none.
     *
     *     `is_secret` says whether the value is never shown, whatever the key is; null keeps it.
     */
    VariableUpdate: {
      description?: string | null;
      is_secret?: boolean | null;
      team?: string | null;
      value: string;
    };
    /**
     * @description The state of a gate.
     * @enum {string}
     */
    Verdict: "ok" | "wait" | "never" | "not-reached" | "unknown";
    /**
     * @description A version in a list. `source_hash` covers the file and all that it imports (null: unknown).
     *
     *     `bundle` is the bundle that has the file (null: the DAGs folder). Runs keep the code of `bundle_version`, a commit
     *     or a hash of the content; null: they run the newest code. `commit_url` is the page of that commit at the host of its
     *     repository, if it has one.
     */
    Version: {
      bundle: string | null;
      bundle_version: string | null;
      commit_url?: string | null;
      content_hash: string;
      created_at: string;
      file: string | null;
      number: number;
      source_hash: string | null;
    };
    /**
     * @description A version with its source (null for DAGs of an application) and the serialized DAG.
     *
     *     `sources` are the content hashes of the file and of all that it imports from the DAGs folder (null: unknown).
     */
    VersionDetails: {
      bundle: string | null;
      bundle_version: string | null;
      commit_url?: string | null;
      content_hash: string;
      created_at: string;
      file: string | null;
      number: number;
      source: string | null;
      source_hash: string | null;
      sources: {
        [key: string]: string;
      } | null;
      spec: {
        [key: string]: unknown;
      };
    };
    /** @description A run of a version. */
    VersionRun: {
      logical_date: string | null;
      run_after: string;
      run_id: string;
      /** @description A newer aiosched may have stored another value. */
      run_type: components["schemas"]["RunType"] | string;
      /** @description A newer aiosched may have stored another value. */
      state: components["schemas"]["RunState"] | string;
    };
    /**
     * @description The runs of a version among the newest `looked_at` of the DAG: `number` and `failed` of them, the newest first.
     *
     *     `runs` are the newest 20.
     */
    VersionRuns: {
      failed: number;
      looked_at: number;
      number: number;
      runs: components["schemas"]["VersionRun"][];
    };
    /** @description Another name and other filters. */
    ViewChange: {
      name: string;
      query: string;
    };
    /** @description A view of a list: `query` is that of its address in the web UI. `team` null: everybody sees it. */
    ViewResource: {
      changed_at: string;
      changed_by: string;
      /** @description its version: a change with `If-Match` and it, in quotes, needs it to hold */
      etag: string;
      id: number;
      name: string;
      /** @description A newer aiosched may have stored another value. */
      page: ("dags" | "runs" | "task-instances") | string;
      query: string;
      team: string | null;
    };
    /** @description A request that is stored and waits for a scheduler: see `/commands/{command}`. */
    Waiting: {
      command: number;
    };
    /** @description The whole explanation; `gates` in the order in which they are checked. A null `rank` is unknown. */
    Why: {
      at: string;
      commands: string[];
      earliest_start: string | null;
      gates: components["schemas"]["WhyGate"][];
      likely_free_at: string | null;
      /** @description what was left out because there is too much of it, and what of its logs is lost */
      notes: string[];
      /** @description its place among all tasks that wait for slots of its pool */
      rank: number | null;
      since: string | null;
      state: string;
      subject: string;
      summary: string;
      waiting_seconds: number | null;
    };
    /** @description One condition for running, and whether it holds. */
    WhyGate: {
      commands: string[];
      detail: string;
      holders: components["schemas"]["WhyHolder"][];
      name: string;
      opens_at: string | null;
      verdict: components["schemas"]["Verdict"];
    };
    /**
     * @description Who holds what is missing, or will provide it. `label` is for people; `usual_seconds` is a median.
     *
     *     The ids of a task of a DAG that one may not see are empty.
     */
    WhyHolder: {
      dag_id: string;
      label: string;
      map_index: number;
      run_id: string;
      seconds: number | null;
      slots: number;
      state: string;
      task_id: string | null;
      usual_seconds: number | null;
    };
    /**
     * @description A value that a task pushed: its size in bytes, and its JSON, which lists cut at 100,000 characters.
     *
     *     `url` is where a large value is, in remote storage; then `value` is only the beginning of its JSON, and `content`
     *     has all of it.
     */
    XCom: {
      created_at: string;
      key: string;
      size: number;
      url: string | null;
      value: string;
    };
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: never;
  pathItems: never;
}

declare global {
  type Api = components["schemas"];
}
