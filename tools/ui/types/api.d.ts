// Written by types.mjs from docs/openapi.json: npm run types

export interface components {
  schemas: {
    /** @description An asset, the DAGs that make it and that wait for it, and its newest event. */
    Asset: {
      consumers: string[];
      extra: {
        [key: string]: unknown;
      };
      is_active: boolean;
      last_event_at: string | null;
      name: string;
      producers: string[];
      uri: string;
    };
    /** @description An event of an asset; the source is null for one that a person emitted. */
    AssetEvent: {
      alias: string | null;
      dag_id: string | null;
      extra: {
        [key: string]: unknown;
      };
      id: number;
      map_index: number | null;
      name: string;
      run_id: string | null;
      task_id: string | null;
      timestamp: string;
    };
    /** @description Something that needs somebody. */
    Attention: {
      dag_id?: string | null;
      /** @enum {string} */
      kind: "scheduler" | "import_error" | "failed" | "paused" | "late" | "pool" | "callback";
      run_id?: string | null;
      since?: string | null;
      words: string;
    };
    /** @description A backfill and how many of its runs are where. Dates are inclusive. */
    Backfill: {
      backwards: boolean;
      completed_at: string | null;
      created_at: string;
      dag_id: string;
      failed: number;
      finished: number;
      from_date: string;
      id: number;
      max_active_runs: number;
      rerun: components["schemas"]["Rerun"];
      running: number;
      /** @enum {string} */
      state: "running" | "paused" | "completed" | "cancelled";
      to_date: string;
      total: number;
    };
    /** @description A new backfill (null for a dry run), and what becomes of each date. */
    BackfillAnswer: {
      dates: components["schemas"]["PlannedDate"][];
      id: number | null;
    };
    /** @description A task instance with its tries, oldest first. */
    Bar: {
      map_index: number;
      task_id: string;
      tries: components["schemas"]["Segment"][];
    };
    /** @description Why somebody asks for something. */
    Because: {
      /** @description why, for the audit log */
      reason?: string | null;
    };
    /** @description The days of a year that have runs, in order. */
    Calendar: {
      days: components["schemas"]["Day"][];
      year: number;
    };
    /** @description What is (or was) touched: how many instances, of which runs, how many in each state; the first 1,000 of them. */
    ClearAnswer: {
      count: number;
      instances: components["schemas"]["Touched"][];
      runs: string[];
      states: {
        [key: string]: number;
      };
    };
    /**
     * @description Task instances that are to run again. `newest_version` moves their runs to the newest version before.
     *
     *     `prevent_running`: refused where some of them are running, which are stopped otherwise.
     */
    Clearing: {
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
      /** @description why, for the audit log */
      reason?: string | null;
      run_ids?: string[] | null;
      task_ids?: string[] | null;
      to_date?: string | null;
      /** @default false */
      upstream: boolean;
    };
    /** @description A run to come; `note` says in words what a clock change does to it. */
    Coming: {
      data_interval_end: string;
      data_interval_start: string;
      logical_date: string;
      note: string | null;
      run_after: string;
    };
    /** @description Runs to come, in order. */
    ComingList: {
      items: components["schemas"]["Coming"][];
    };
    /** @description A request of somebody, and what became of it. */
    Command: {
      applied_at: string | null;
      args: {
        [key: string]: unknown;
      };
      created_at: string;
      dag_id: string | null;
      id: number;
      reason: string | null;
      requested_by: string;
      result: {
        [key: string]: unknown;
      } | null;
      /** @enum {string} */
      state: "waiting" | "applied" | "refused";
      verb: string;
    };
    /** @description A connection as far as it is no secret. */
    Connection: {
      conn_id: string;
      conn_type: string;
      created_at: string;
      description: string | null;
    };
    /** @description A connection to store, whole. */
    ConnectionWish: {
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
    };
    /** @description How much there is: task instances of all schedulers (as of their last renewals), runs, and what is late. */
    Counts: {
      deferred: number;
      failed_runs_24h: number;
      late_dags: number;
      oldest_queued_at: string | null;
      queued: number;
      queued_runs: number;
      running: number;
      running_runs: number;
      scheduled: number;
    };
    /** @description A name and its password. */
    Credentials: {
      name: string;
      password: string;
    };
    /** @description A DAG and its newest version. */
    Dag: {
      active_runs: number;
      dag_id: string;
      description: string | null;
      file: string | null;
      has_import_errors: boolean;
      is_paused: boolean;
      is_stale: boolean;
      last_parsed_at: string | null;
      last_run_id: string | null;
      last_run_state: string | null;
      max_active_runs: number;
      max_active_tasks: number;
      next_logical_date: string | null;
      next_run_after: string | null;
      owner: string | null;
      schedule: string | null;
      status: string;
      tags: string[];
      version: number | null;
    };
    /** @description What to change of a DAG. */
    DagChange: {
      is_paused: boolean;
      /** @description why, for the audit log */
      reason?: string | null;
    };
    /** @description A DAG file as of its last parse: how long that took in seconds, and whether it failed (see `/import-errors`). */
    DagFile: {
      dag_ids: string[];
      file: string;
      has_error: boolean;
      parsed_at: string | null;
      seconds: number | null;
      warnings: string[];
    };
    /** @description The boxes (groups before what is in them), the lines, and the ids on the critical path of the asked run. */
    DagGraph: {
      critical_path: string[];
      edges: components["schemas"]["GraphEdge"][];
      height: number;
      nodes: components["schemas"]["GraphNode"][];
      version: number;
      width: number;
    };
    /** @description The runs of one day (UTC) of the year, by state, and how many are to come. */
    Day: {
      /** @default 0 */
      coming: number;
      counts: {
        [key: string]: number;
      };
      /** Format: date */
      date: string;
    };
    /** @description What changed from one version to another, as unified diffs; empty where nothing did. */
    Difference: {
      modules: string[];
      source: string;
      spec: string;
    };
    /** @description An event that was stored. */
    Emitted: {
      at: string;
      name: string;
    };
    /** @description Where errors begin in a log, in bytes and in lines from 0; at most 1,000. */
    ErrorLines: {
      lines: number[];
      offsets: number[];
    };
    /** @description One thing that is wrong with a request. */
    Field: {
      message: string;
      where: string;
    };
    /** @description The number of a line, from 0 and as in `LogBlocks`; null when none has the words. */
    FoundLine: {
      line: number | null;
    };
    /** @description A run in time. `complete` is false where it has more tries, or more deferred stretches, than are shown. */
    Gantt: {
      complete: boolean;
      items: components["schemas"]["Bar"][];
    };
    /** @description A line between two boxes. */
    GraphEdge: {
      label: string | null;
      points: [number, number][];
      source: string;
      target: string;
    };
    /** @description A box: a task, or a group (folded: it stands for all that is in it). `counts` are states in the asked run. */
    GraphNode: {
      counts?: {
        [key: string]: number;
      } | null;
      height: number;
      id: string;
      is_folded: boolean;
      is_mapped: boolean;
      /** @enum {string} */
      kind: "task" | "group";
      label: string;
      operator: string | null;
      parent: string | null;
      trigger_rule: string | null;
      width: number;
      x: number;
      y: number;
    };
    /**
     * @description Runs across (oldest first), tasks down.
     *
     *     `cells` has for each run what each row is: a state, for several instances an object of counts by state,
     *     null where the run does not have the task. `rows` are those of the newest version.
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
      runs: components["schemas"]["Run"][];
      version: number;
    };
    /** @description How everything stands. */
    HealthReport: {
      components: {
        [key: string]: components["schemas"]["PartStatus"];
      };
      schedulers: components["schemas"]["SchedulerStatus"][];
      status: components["schemas"]["Status"];
    };
    /** @description Why a DAG file cannot be read: one line, the code around it, the traceback. */
    ImportProblem: {
      code_frame: string | null;
      dag_ids: string[];
      error: string;
      file: string;
      line: number | null;
      parsed_at: string | null;
      traceback: string | null;
    };
    /** @description Who makes what for whom: edges go from DAGs to the assets they make, and from assets to the DAGs that wait. */
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
    /**
     * @description Where the lines of a log are: `[offset, line, size, lines]` a block, of whole lines, in bytes and from 0.
     *
     *     `size` is that of the log now; `next` the offset of the blocks that are not in this answer, null when none are.
     */
    LogBlocks: {
      blocks: number[][];
      complete: boolean;
      next: number | null;
      size: number;
    };
    /** @description How one logs in; with `oidc` by going to /api/v1/login/oidc, where users with a password may use that, too. */
    LoginMethod: {
      /** @enum {string} */
      login: "none" | "password" | "oidc";
    };
    /** @description A new token: `token` is shown this once. */
    MadeToken: {
      facts: components["schemas"]["Token"];
      token: string;
    };
    /**
     * @description A state that a person gives a task instance.
     *
     *     `upstream` and `downstream` add the tasks before and behind it, `past` and `future` the runs before and after
     *     that one, by logical date.
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
      /** @description why, for the audit log */
      reason?: string | null;
      /** @enum {string} */
      state: "success" | "failed" | "skipped";
      /** @default false */
      upstream: boolean;
    };
    /** @description Who sends the requests. `csrf` goes into `X-CSRF-Token` of requests that change something. */
    Me: {
      csrf?: string | null;
      /** @enum {string} */
      login: "none" | "password" | "oidc";
      name: string;
      /** @enum {string} */
      role: "viewer" | "operator" | "admin";
    };
    /** @description Every scheduler that has told figures. */
    MetricsSummary: {
      schedulers: components["schemas"]["SchedulerTempo"][];
    };
    /** @description Past dates to run, both inclusive. `rerun`: which runs that exist run again. */
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
      /** Format: date-time */
      from_date: string;
      /** @default 10 */
      max_active_runs: number;
      /** @description why, for the audit log */
      reason?: string | null;
      /** @default missing */
      rerun: components["schemas"]["Rerun"];
      /** Format: date-time */
      to_date: string;
    };
    /** @description An event to emit, as a task would. */
    NewEvent: {
      /** @default {} */
      extra: {
        [key: string]: unknown;
      };
      /** @description why, for the audit log */
      reason?: string | null;
    };
    /** @description A run to make. Without a logical date it has no data interval. */
    NewRun: {
      /** @default {} */
      conf: {
        [key: string]: unknown;
      };
      logical_date?: string | null;
      /** @description why, for the audit log */
      reason?: string | null;
      run_after?: string | null;
      run_id?: string | null;
      /** @default false */
      unpause: boolean;
    };
    /** @description A token to make, for oneself. `days` until it expires; null: never. */
    NewToken: {
      /** @default 90 */
      days: number | null;
      label: string;
      /**
       * @default viewer
       * @enum {string}
       */
      role: "viewer" | "operator" | "admin";
    };
    /** @description A person to add. */
    NewUser: {
      name: string;
      password: string;
      /** @enum {string} */
      role: "viewer" | "operator" | "admin";
    };
    /** @description A note; an empty one removes it. */
    NoteText: {
      note: string;
    };
    /** @description A note as it is stored. */
    Noted: {
      map_index?: number | null;
      note: string | null;
      run_id: string;
      task_id?: string | null;
    };
    Page_AssetEvent_: {
      items: components["schemas"]["AssetEvent"][];
      next_cursor?: string | null;
    };
    Page_Asset_: {
      items: components["schemas"]["Asset"][];
      next_cursor?: string | null;
    };
    Page_Backfill_: {
      items: components["schemas"]["Backfill"][];
      next_cursor?: string | null;
    };
    Page_Command_: {
      items: components["schemas"]["Command"][];
      next_cursor?: string | null;
    };
    Page_Connection_: {
      items: components["schemas"]["Connection"][];
      next_cursor?: string | null;
    };
    Page_DagFile_: {
      items: components["schemas"]["DagFile"][];
      next_cursor?: string | null;
    };
    Page_Dag_: {
      items: components["schemas"]["Dag"][];
      next_cursor?: string | null;
    };
    Page_ImportProblem_: {
      items: components["schemas"]["ImportProblem"][];
      next_cursor?: string | null;
    };
    Page_Pool_: {
      items: components["schemas"]["Pool"][];
      next_cursor?: string | null;
    };
    Page_Run_: {
      items: components["schemas"]["Run"][];
      next_cursor?: string | null;
    };
    Page_Tag_: {
      items: components["schemas"]["Tag"][];
      next_cursor?: string | null;
    };
    Page_TaskEvent_: {
      items: components["schemas"]["TaskEvent"][];
      next_cursor?: string | null;
    };
    Page_TaskInstance_: {
      items: components["schemas"]["TaskInstance"][];
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
    Page_Variable_: {
      items: components["schemas"]["Variable"][];
      next_cursor?: string | null;
    };
    Page_Version_: {
      items: components["schemas"]["Version"][];
      next_cursor?: string | null;
    };
    Page_XCom_: {
      items: components["schemas"]["XCom"][];
      next_cursor?: string | null;
    };
    /** @description One part of the system. */
    PartStatus: {
      detail: string;
      fix?: string | null;
      status: components["schemas"]["Status"];
    };
    /** @description What becomes of a date: a run is made, made again, or left alone. */
    PlannedDate: {
      fate: string;
      logical_date: string;
    };
    /** @description A pool. `slots` -1 is without limit (then `open` is null), 0 lets nothing run. */
    Pool: {
      description: string | null;
      include_deferred: boolean;
      name: string;
      open: number | null;
      slots: number;
      used: number;
    };
    /** @description A pool as it should be; what is null stays as it is. */
    PoolWish: {
      description?: string | null;
      include_deferred?: boolean | null;
      reason?: string | null;
      slots: number;
    };
    /** @description The body of every error. `code` is stable; `fields` says what is wrong where, for unusable requests. */
    ProblemDetails: {
      code: string;
      detail: string;
      fields?: components["schemas"]["Field"][] | null;
      status: number;
      title: string;
      /** @default about:blank */
      type: string;
    };
    /**
     * @description Who holds slots (longest first, at most 200) and who waits, in the order in which they are served.
     *
     *     The order is that of each scheduler; limits of a DAG may let somebody pass. Holders stand on the first page only.
     */
    Queue: {
      holders: components["schemas"]["SlotUser"][];
      items: components["schemas"]["SlotUser"][];
      next_cursor: string | null;
    };
    /** @description The template fields by name, as the task would see them now; secrets are hidden. */
    Rendered: {
      fields: {
        [key: string]: unknown;
      };
    };
    /**
     * @description Which runs that exist already a backfill runs again.
     * @enum {string}
     */
    Rerun: "missing" | "failed" | "all";
    /** @description A row of the grid: a task, or a group that holds the rows below it with a greater depth. */
    Row: {
      depth: number;
      id: string;
      is_mapped: boolean;
      /** @enum {string} */
      kind: "task" | "group";
      label: string;
      task_index: number | null;
    };
    /** @description A run. `key` is its number in the database, `reason` why it failed; `seconds` from start to end. */
    Run: {
      conf: {
        [key: string]: unknown;
      };
      dag_id: string;
      data_interval_end: string | null;
      data_interval_start: string | null;
      end_date: string | null;
      key: number;
      logical_date: string | null;
      note: string | null;
      queued_at: string | null;
      reason: string | null;
      run_after: string;
      run_id: string;
      run_type: components["schemas"]["RunType"];
      seconds: number | null;
      start_date: string | null;
      state: components["schemas"]["RunState"];
      triggered_by: string;
      version: number;
    };
    /** @description One of the last runs. */
    RunBar: {
      run_after: string;
      run_id: string;
      seconds: number | null;
      state: components["schemas"]["RunState"];
    };
    /** @description A run with how many of its task instances are in each state. */
    RunDetails: {
      conf: {
        [key: string]: unknown;
      };
      dag_id: string;
      data_interval_end: string | null;
      data_interval_start: string | null;
      end_date: string | null;
      key: number;
      logical_date: string | null;
      note: string | null;
      queued_at: string | null;
      reason: string | null;
      run_after: string;
      run_id: string;
      run_type: components["schemas"]["RunType"];
      seconds: number | null;
      start_date: string | null;
      state: components["schemas"]["RunState"];
      tasks: {
        [key: string]: number;
      };
      triggered_by: string;
      version: number;
    };
    /** @description A state that a person gives a run, with all that is unfinished in it; `queued` lets it run again. */
    RunMark: {
      /** @description why, for the audit log */
      reason?: string | null;
      /** @enum {string} */
      state: "success" | "failed" | "queued";
    };
    /**
     * @description The state of a DAG run.
     * @enum {string}
     */
    RunState: "queued" | "running" | "success" | "failed";
    /**
     * @description What made a run; the first part of its run id.
     * @enum {string}
     */
    RunType: "scheduled" | "manual" | "backfill" | "asset_triggered";
    /**
     * @description One scheduler of the fleet. `lease_age` in seconds; `figures` are its own, as of the last renewal.
     *
     *     `owned` are the numbers of its partitions, `partitions` how many.
     */
    Scheduler: {
      executor: string;
      figures: {
        [key: string]: unknown;
      } | null;
      hostname: string;
      incarnation: number;
      lease_age: number;
      name: string;
      owned: number[];
      partitions: number;
      pid: number;
      slots: number;
      started_at: string;
      /** @enum {string} */
      status: "alive" | "draining" | "dead";
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
     * @description How fast a scheduler was in the last `seconds`: since this server looked first, at most some minutes ago.
     *
     *     `task_lag`: from a task's last dependency to its start. `schedule_delay`: from the instant at which a run may start
     *     to its start. `commit`: time of a commit. `loop_lag`: how late its event loop came.
     */
    SchedulerTempo: {
      alive: boolean;
      commit: components["schemas"]["Spread"];
      commits_per_second: number;
      incarnation: number;
      loop_lag: components["schemas"]["Spread"];
      name: string;
      schedule_delay: components["schemas"]["Spread"];
      seconds: number;
      task_lag: components["schemas"]["Spread"];
      tasks_per_commit: number | null;
      tasks_per_second: number;
    };
    /** @description All schedulers that are known. */
    Schedulers: {
      items: components["schemas"]["Scheduler"][];
    };
    /** @description One try in time; `deferred` is within it, in order. */
    Segment: {
      deferred?: components["schemas"]["Stretch"][];
      end_date: string | null;
      queued_at: string | null;
      scheduled_at: string | null;
      start_date: string | null;
      state: string | null;
      try_number: number;
    };
    /** @description A setting of the web server's process; secrets are hidden. */
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
    /** @description A task instance that holds slots of a pool, or waits for them: since when, and for how many seconds. */
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
    /** @description How many values there were, and what half and 99 % of them were below, in seconds (null without any). */
    Spread: {
      count: number;
      p50: number | null;
      p99: number | null;
    };
    /** @description The last runs of a DAG (at most 30, oldest first), and what they say: rate of success, usual durations in s. */
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
     * @description Of one part, and of all of them: the worst.
     * @enum {string}
     */
    Status: "healthy" | "degraded" | "unhealthy" | "unknown";
    /** @description What storing did. */
    Stored: {
      /** @enum {string} */
      change: "created" | "changed" | "unchanged" | "skipped";
      name: string;
    };
    /** @description When a try waited for a trigger; `until` is null while it does. */
    Stretch: {
      since: string;
      until: string | null;
    };
    /** @description What the first page shows. */
    Summary: {
      attention: components["schemas"]["Attention"][];
      components: {
        [key: string]: components["schemas"]["PartStatus"];
      };
      counts: components["schemas"]["Counts"];
      status: components["schemas"]["Status"];
    };
    /** @description A tag, and how many DAGs that are not stale have it. */
    Tag: {
      dags: number;
      tag: string;
    };
    /** @description A task of a DAG, with its direct neighbours. */
    Task: {
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
      task_id: string;
      task_index: number;
      trigger_rule: string;
      upstream: string[];
    };
    /** @description A task instance with what its DAG version says of the task, and the tries that left a log here. */
    TaskDetails: {
      dag_id: string;
      definition: components["schemas"]["Task"];
      end_date: string | null;
      logs: number[];
      map_index: number;
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
      state: components["schemas"]["TaskState"];
      task_id: string;
      task_index: number;
      template_fields: {
        [key: string]: unknown;
      };
      try_number: number;
    };
    /** @description Something that happened: a try reached a state, or somebody asked for something (`by`, with their reason). */
    TaskEvent: {
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
    /** @description A task instance; `map_index` -1 for a task that is not mapped. */
    TaskInstance: {
      end_date: string | null;
      map_index: number;
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
      state: components["schemas"]["TaskState"];
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
    /** @description All tasks of a DAG, in its order. */
    Tasks: {
      items: components["schemas"]["Task"][];
    };
    /** @description Runs of a stretch of time (latest start first), and those to come (in order). */
    Timeline: {
      coming: components["schemas"]["TimelineComing"][];
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
    /** @description A run in time; without an end it still runs. */
    TimelineRun: {
      dag_id: string;
      end_date: string | null;
      run_id: string;
      run_type: components["schemas"]["RunType"];
      start_date: string | null;
      state: components["schemas"]["RunState"];
    };
    /** @description A token, without the token itself. */
    Token: {
      created_at: string;
      expires_at: string | null;
      id: number;
      label: string;
      last_used_at: string | null;
      owner: string;
      /** @enum {string} */
      role: "viewer" | "operator" | "admin";
    };
    /** @description A task instance as it was before. */
    Touched: {
      map_index: number;
      run_id: string;
      state: string | null;
      task_id: string;
      try_number: number;
    };
    /**
     * @description One try. `details` is the traceback.
     *
     *     `version` is the DAG version whose code it ran (null: none that is stored), `source_hash` the hash of that code.
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
    /** @description A person who may log in. */
    User: {
      created_at: string;
      has_password: boolean;
      is_disabled: boolean;
      name: string;
      /** @enum {string} */
      role: "viewer" | "operator" | "admin";
    };
    /** @description What to change; what is null stays. Any change ends the person's sessions. */
    UserChange: {
      is_disabled?: boolean | null;
      password?: string | null;
      role?: ("viewer" | "operator" | "admin") | null;
    };
    /** @description A variable without its value. */
    Variable: {
      created_at: string;
      description: string | null;
      key: string;
    };
    /** @description A value to store; a description of null keeps the one that is there. */
    VariableWish: {
      description?: string | null;
      value: string;
    };
    /**
     * @description The state of a gate.
     * @enum {string}
     */
    Verdict: "ok" | "wait" | "never" | "not-reached" | "unknown";
    /** @description A version in a list. `source_hash` is of the file with all that it imports (null: not known). */
    Version: {
      content_hash: string;
      created_at: string;
      file: string | null;
      number: number;
      source_hash: string | null;
    };
    /**
     * @description A version with its source (null for DAGs of an application) and the serialized DAG.
     *
     *     `sources` are the content hashes of the file and of all that it imports from the DAGs folder (null: not known).
     */
    VersionDetails: {
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
    /** @description A request that is stored and waits for a scheduler: look at it under `/commands/{command}`. */
    Waiting: {
      command: number;
    };
    /** @description The whole answer; `gates` in the order in which they are decided. A missing `rank` is an unknown one. */
    Why: {
      at: string;
      commands: string[];
      earliest_start: string | null;
      gates: components["schemas"]["WhyGate"][];
      likely_free_at: string | null;
      /** @description what was not looked at, in words, where there is too much of it */
      notes: string[];
      /** @description its place among all that wait for slots of its pool */
      rank: number | null;
      since: string | null;
      state: string;
      subject: string;
      summary: string;
      waiting_seconds: number | null;
    };
    /** @description One question on the way to running, and its answer. */
    WhyGate: {
      commands: string[];
      detail: string;
      holders: components["schemas"]["WhyHolder"][];
      name: string;
      opens_at: string | null;
      verdict: components["schemas"]["Verdict"];
    };
    /** @description Who has, or is to deliver, what is missing. `label` names it in words; `usual_seconds` is a median. */
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
    /** @description A value that a task pushed: its size in bytes, and its JSON, cut at 100,000 characters in lists. */
    XCom: {
      created_at: string;
      key: string;
      size: number;
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
