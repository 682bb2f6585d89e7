"""Every setting of Airflow's core and scheduler, 1.10 to 3, and what it is called here, or why it is not needed.

The tables at the end of docs/migration.md are made of it. Sections that belong to another part of Airflow as a whole
have one line in SECTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiosched.airflow.configuration import SETTINGS as SAME_MEANING


def as_is(value: str) -> Any:
    """The text; the settings read numbers and switches from it."""
    return value


TRUE: Final = ("true", "t", "1", "yes")


class OurSetting(NamedTuple):
    """The setting of aiosched: its key, a remark, and how its value is made from Airflow's.

    `always`: also the default value is to be set, since it counts whether the setting is set at all.
    """

    key: str
    note: str | None = None
    convert: Callable[[str], Any] = as_is
    always: bool = False


def _executor(value: str) -> str:
    names = {
        "LocalExecutor": "local", "SequentialExecutor": "local", "CeleryExecutor": "celery",
        "KubernetesExecutor": "kubernetes", "DaskExecutor": "dask", "CeleryKubernetesExecutor": "celery,kubernetes",
        "LocalKubernetesExecutor": "local,kubernetes", "DebugExecutor": "inline",
    }  # fmt: skip
    found = []
    for one in value.split(","):
        name = one.strip().rpartition(".")[2].partition(":")[0]
        if name not in names:
            raise ValueError(f"there is no executor {one.strip()!r} here")
        found.append(names[name])
    return ",".join(found)


def _unlimited(value: str) -> Any:
    """Airflow's 0 or -1 for no limit is an unset value here."""
    return None if float(value) <= 0 else value


def _at_least_one(value: str) -> Any:
    return max(int(float(value)), 1)


def _zone(value: str) -> str:
    if value == "system":
        raise ValueError("write the zone of Airflow's machine, such as Europe/Amsterdam")
    return "UTC" if value.upper() == "UTC" else value


def _weight_rule(value: str) -> str:
    if value not in ("downstream", "upstream", "absolute"):
        raise ValueError("a class of your own goes into the DAG: weight_rule=…")
    return value


def _by_option(reasons: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Why there is no such setting, by section and option; `reasons` has the options of each, as `section.option`."""
    places = [(place.partition("."), reason) for reason, listed in reasons.items() for place in listed.split()]
    return {(section, option): reason for (section, _, option), reason in places}


# Settings that had another place in older versions.
_STATSD: Final = ("metrics", "statsd_on")
SWITCHES: Final[Mapping[tuple[str, str], tuple[str, str]]] = MappingProxyType(  # what turns an option on
    {
        ("logging", "remote_base_log_folder"): ("logging", "remote_logging"),
        **{("metrics", name): _STATSD for name in ("statsd_host", "statsd_port", "statsd_prefix")},
    }
)
OLD_NAMES: Final[Mapping[tuple[str, str], tuple[str, str]]] = MappingProxyType(
    {
        ("core", "dag_concurrency"): ("core", "max_active_tasks_per_dag"),
        ("core", "non_pooled_task_slot_count"): ("core", "default_pool_task_slot_count"),
        ("core", "sql_alchemy_conn"): ("database", "sql_alchemy_conn"),
        ("core", "sql_engine_encoding"): ("database", "sql_engine_encoding"),
        ("core", "sql_engine_collation_for_ids"): ("database", "sql_engine_collation_for_ids"),
        ("core", "sql_alchemy_pool_enabled"): ("database", "sql_alchemy_pool_enabled"),
        ("core", "sql_alchemy_pool_size"): ("database", "sql_alchemy_pool_size"),
        ("core", "sql_alchemy_max_overflow"): ("database", "sql_alchemy_max_overflow"),
        ("core", "sql_alchemy_pool_recycle"): ("database", "sql_alchemy_pool_recycle"),
        ("core", "sql_alchemy_pool_pre_ping"): ("database", "sql_alchemy_pool_pre_ping"),
        ("core", "sql_alchemy_schema"): ("database", "sql_alchemy_schema"),
        ("core", "sql_alchemy_connect_args"): ("database", "sql_alchemy_connect_args"),
        ("core", "load_default_connections"): ("database", "load_default_connections"),
        ("core", "max_db_retries"): ("database", "max_db_retries"),
        **{
            ("core", name): ("logging", name)
            for name in (
                "base_log_folder", "remote_logging", "remote_log_conn_id", "remote_base_log_folder", "logging_level",
                "fab_logging_level", "logging_config_class", "colored_console_log", "colored_log_format", "log_format",
                "simple_log_format", "task_log_prefix_template", "log_filename_template", "task_log_reader",
                "log_processor_filename_template", "dag_processor_manager_log_location", "encrypt_s3_logs",
                "colored_formatter_class", "interleave_timestamp_parser",
            )
        },
        **{
            ("scheduler", name): ("metrics", name)
            for name in (
                "statsd_on", "statsd_host", "statsd_port", "statsd_prefix", "statsd_allow_list", "stat_name_handler",
                "statsd_datadog_enabled", "statsd_datadog_tags", "statsd_custom_client_path",
            )
        },
        ("scheduler", "max_threads"): ("scheduler", "parsing_processes"),
        ("scheduler", "processor_poll_interval"): ("scheduler", "scheduler_idle_sleep_time"),
        ("scheduler", "deactivate_stale_dags_interval"): ("scheduler", "parsing_cleanup_interval"),
        ("core", "worker_precheck"): ("celery", "worker_precheck"),
    }
)  # fmt: skip

_NOT_NEEDED: Final = _by_option(
    {
        "give it to `aiosched migrate airflow`; here secrets.fernet_keys encrypts": "core.fernet_key",
        "scheduler.name is the host's name unless it is set": "core.hostname_callable",
        "core.dag_discovery_safe_mode = false reads every file": "core.might_contain_dag_callable",
        "parsing and workers always use processes of a clean forkserver": (
            "core.mp_start_method core.mp_forkserver_preload scheduler.parsing_pre_import_modules "
            "dag_processor.parsing_pre_import_modules"
        ),
        "users and roles: web.auth, `aiosched users`": (
            "core.auth_manager core.simple_auth_manager_users core.simple_auth_manager_passwords_file "
            "scheduler.authenticate"
        ),
        "web.auth = none": "core.simple_auth_manager_all_admins",
        "no examples are installed; `aiosched init` makes one": "core.load_examples",
        "executor.isolation = fresh: a new process for each attempt": "core.execute_tasks_new_python_interpreter",
        "errors are always shown with the lines of your file": (
            "core.dagbag_import_error_tracebacks core.dagbag_import_error_traceback_depth"
        ),
        "Kerberos belongs to the provider's hook": "core.security",
        "nothing of it exists here": "core.secure_mode",
        "`aiosched.testing` needs no mode": "core.unit_test_mode",
        "XComs are JSON: nothing is unpickled": (
            "core.allowed_deserialization_classes core.allowed_deserialization_classes_regexp"
        ),
        "a worker takes its next task whatever threads a task left behind": "core.task_success_overtime",
        "DAGs are stored when their meaning changes, and never fetched in intervals": (
            "core.min_serialized_dag_update_interval core.min_serialized_dag_fetch_interval "
            "core.compress_serialized_dags core.store_serialized_dags"
        ),
        "the code of each version is always stored": "core.store_dag_code",
        "xcom.remote and xcom.remote_from store large XComs in object storage": "core.xcom_backend",
        "XComs are JSON": "core.enable_xcom_pickling",
        "DAGs are never pickled": "core.donot_pickle",
        "plugins are loaded where DAG files are": "core.lazy_load_plugins",
        "providers are looked for when one is used": "core.lazy_discover_providers",
        "secrets are always masked": "core.hide_sensitive_var_conn_fields",
        "names that suggest a secret are known: docs/secrets.md": "core.sensitive_var_conn_names",
        "ids with two dots are allowed": "core.allow_double_dot_in_ids",
        "aiosched starts no daemons": "core.daemon_umask",
        "assets have one implementation": (
            "core.asset_manager_class core.asset_manager_kwargs core.dataset_manager_class core.dataset_manager_kwargs"
        ),
        "URIs of assets are always checked": "core.strict_dataset_uri_validation core.strict_asset_uri_validation",
        "`aiosched connections test` runs where you call it": "core.test_connection",
        "teams have a database each": "core.multi_team core.team_name_cache_ttl",
        "`--newest-version` of clear chooses it for each case": "core.rerun_with_latest_version",
        "the runner is one for all executors": "core.task_runner",
        "workers never have the database's address: they ask their scheduler": (
            "core.database_access_isolation core.internal_api_url core.internal_api_secret_key"
        ),
        "a scheduler that ends is noticed within a second by its database lock, one that hangs by scheduler.lease": (
            "scheduler.job_heartbeat_sec scheduler.scheduler_heartbeat_sec scheduler.task_instance_heartbeat_sec "
            "scheduler.local_task_job_heartbeat_sec scheduler.scheduler_health_check_threshold "
            "scheduler.scheduler_zombie_task_threshold scheduler.zombie_detection_interval "
            "scheduler.task_instance_heartbeat_timeout scheduler.task_instance_heartbeat_timeout_detection_interval "
            "scheduler.orphaned_tasks_check_interval dag_processor.health_check_threshold"
        ),
        "`aiosched serve --until-idle` ends when nothing is left to do": (
            "scheduler.num_runs scheduler.run_duration scheduler.only_idle"
        ),
        "nothing is polled: a change wakes the scheduler": (
            "scheduler.scheduler_idle_sleep_time scheduler.min_file_parsing_loop_time "
            "scheduler.trigger_timeout_check_interval scheduler.task_queued_timeout_check_interval"
        ),
        "metrics.statsd_interval is for all": (
            "scheduler.pool_metrics_interval scheduler.ti_metrics_interval scheduler.dagrun_metrics_interval"
        ),
        "`aiosched dags check` shows the times of files": (
            "scheduler.print_stats_interval dag_processor.print_stats_interval"
        ),
        "/health and /ready of the web server": (
            "scheduler.enable_health_check scheduler.scheduler_health_check_server_host "
            "scheduler.scheduler_health_check_server_port"
        ),
        "true, as by default; a task can say otherwise": "scheduler.ignore_first_depends_on_past_by_default",
        "rows are fetched by what changed, in batches of a fixed size": "scheduler.max_tis_per_query",
        "every run with a change is looked at": "scheduler.max_dagruns_per_loop_to_schedule",
        "each DAG has one owner, so rows are not contended": "scheduler.use_row_level_locking",
        "core.max_map_length is the limit of such fan-outs": "scheduler.partition_mapper_max_downstream_keys",
        "pause the DAGs: `aiosched dags pause`": "scheduler.use_job_schedule",
        "what follows a task is decided with its result": "scheduler.schedule_after_task_execution",
        "core.airflow_defaults": "scheduler.create_cron_data_intervals scheduler.create_delta_data_intervals",
        "use memray or tracemalloc from outside": "scheduler.enable_tracemalloc",
        "a DAG is stale as soon as its file does not define it": (
            "scheduler.stale_dag_threshold scheduler.dag_stale_not_seen_duration dag_processor.stale_dag_threshold"
        ),
        "the scheduler has one log, with the file in each line": "scheduler.child_process_log_directory",
        "`aiosched serve --role parser`": "scheduler.standalone_dag_processor",
        "callbacks run in workers, each on its own": (
            "scheduler.max_callbacks_per_loop dag_processor.max_callbacks_per_loop"
        ),
        "allowed: its tasks start at run_after": "scheduler.allow_trigger_in_future",
        "[[dags.bundles]]: see docs/bundles.md": (
            "dag_processor.dag_bundle_storage_path dag_processor.dag_bundle_config_list "
            "dag_processor.bundle_refresh_check_interval"
        ),
        "dags.pin_code and the bundles' own settings": "dag_processor.disable_bundle_versioning",
        "dags.keep_days": (
            "dag_processor.stale_bundle_cleanup_interval dag_processor.stale_bundle_cleanup_age_threshold "
            "dag_processor.stale_bundle_cleanup_min_versions"
        ),
        "a version is stored only if meaning or code changed": "dag_processor.dag_version_inflation_check_level",
        "filter in StatsD's or Prometheus' own configuration": "metrics.metrics_allow_list metrics.metrics_block_list",
    }
)
OPTIONS: Final[Mapping[tuple[str, str], OurSetting | str]] = MappingProxyType(
    {
        **{place: OurSetting(key) for place, key in SAME_MEANING.items() if place not in OLD_NAMES},
        ("core", "plugins_folder"): OurSetting("core.plugins_folder"),
        ("core", "dag_ignore_file_syntax"): OurSetting("core.dag_ignore_file_syntax"),
        ("core", "dag_file_processor_timeout"): OurSetting("parsing.file_timeout"),
        ("core", "num_dag_runs_to_retain_rendered_fields"): OurSetting("core.num_dag_runs_to_retain_rendered_fields"),
        ("core", "max_num_rendered_ti_fields_per_task"): OurSetting("core.num_dag_runs_to_retain_rendered_fields"),
        ("core", "max_templated_field_length"): OurSetting("core.max_templated_field_length"),
        ("scheduler", "num_stuck_in_queued_retries"): OurSetting("scheduler.num_stuck_in_queued_retries"),
        ("scheduler", "allowed_run_id_pattern"): OurSetting("scheduler.allowed_run_id_pattern"),
        ("scheduler", "min_file_process_interval"): OurSetting("parsing.min_file_process_interval"),
        ("scheduler", "dag_dir_list_interval"): OurSetting("parsing.refresh_interval"),
        ("scheduler", "parsing_processes"): OurSetting("parsing.processes"),
        ("scheduler", "file_parsing_sort_mode"): OurSetting("parsing.file_parsing_sort_mode"),
        ("scheduler", "parsing_cleanup_interval"): OurSetting("parsing.cleanup_interval"),
        ("dag_processor", "refresh_interval"): OurSetting("parsing.refresh_interval"),
        ("dag_processor", "parsing_processes"): OurSetting("parsing.processes"),
        ("dag_processor", "file_parsing_sort_mode"): OurSetting("parsing.file_parsing_sort_mode"),
        ("dag_processor", "min_file_process_interval"): OurSetting("parsing.min_file_process_interval"),
        ("dag_processor", "dag_file_processor_timeout"): OurSetting("parsing.file_timeout"),
        ("triggerer", "capacity"): OurSetting("scheduler.max_triggers"),
        ("triggerer", "default_capacity"): OurSetting("scheduler.max_triggers"),
        ("logging", "base_log_folder"): OurSetting("logs.folder"),
        ("metrics", "statsd_host"): OurSetting("metrics.statsd_host"),
        ("metrics", "statsd_port"): OurSetting("metrics.statsd_port"),
        ("metrics", "statsd_prefix"): OurSetting("metrics.statsd_prefix"),
        ("workers", "missing_dag_retries"): OurSetting("executor.missing_dag_retries"),
        ("workers", "missing_dag_retry_delay"): OurSetting("executor.missing_dag_retry_delay"),
        ("webserver", "base_url"): OurSetting("web.base_url"),
        ("webserver", "web_server_host"): OurSetting("web.host"),
        ("webserver", "web_server_port"): OurSetting("web.port"),
        ("api", "base_url"): OurSetting("web.base_url"),
        ("api", "host"): OurSetting("web.host"),
        ("api", "port"): OurSetting("web.port"),
        ("core", "default_timezone"): OurSetting("core.default_timezone", None, _zone),
        ("core", "executor"): OurSetting("executor.kind", None, _executor),
        ("core", "parallelism"): OurSetting("core.parallelism", "for each scheduler", _at_least_one),
        ("core", "max_active_tasks_per_dag"): OurSetting("core.max_active_tasks_per_dag", "over all runs of the DAG"),
        ("core", "default_task_execution_timeout"): OurSetting("core.default_task_execution_timeout", None, _unlimited),
        ("core", "default_task_weight_rule"): OurSetting("core.default_task_weight_rule", None, _weight_rule),
        ("core", "default_impersonation"): OurSetting("executor.run_as", "DAG files are imported as that user, too"),
        ("core", "execution_api_server_url"): OurSetting("executor.worker_api", "for workers on engines"),
        ("scheduler", "catchup_by_default"): OurSetting(
            "scheduler.catchup_by_default", "unset, it is that of each file's generation", always=True
        ),
        ("logging", "logging_level"): OurSetting(
            "logs.level", None, lambda value: "WARNING" if value == "WARN" else value
        ),
        ("logging", "remote_base_log_folder"): OurSetting("logs.remote", "its options: logs.remote_options"),
        ("logging", "delete_local_logs"): OurSetting("logs.keep_local", None, lambda value: value.lower() not in TRUE),
        **_NOT_NEEDED,
    }
)

# What becomes of the other options of a section.
SECTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "database": (
            "database.dsn and database.pool_size say where the database is; its driver and engine are aiosched's own"
        ),
        "triggerer": "triggers run in the scheduler that owns the DAG, on its event loop",
        "logging": "task logs are JSON lines, shown by the web UI and `aiosched tasks logs`",
        "metrics": "metrics.statsd_host turns StatsD on; Prometheus reads /metrics, OpenTelemetry needs aiosched[otel]",
        "traces": "OpenTelemetry is set up by its own environment variables, with aiosched[otel]",
        "smtp": "the connection smtp_default: `aiosched connections add smtp_default --uri smtp://…`",
        "email": "the connection smtp_default, and send_email(to=…) as a callback",
        "webserver": "the web UI is aiosched's own: [web]",
        "api": "the API is aiosched's own: [web]; web.airflow_api offers a subset of Airflow's",
        "api_auth": "users and roles: web.auth, `aiosched users`",
        "fab": "users and roles: web.auth, `aiosched users`",
        "admin": "secrets are always masked",
        "ldap": "web.auth = oidc, with a provider that knows your directory",
        "cli": "the command line talks to the database, or use aiosched.client",
        "debug": "`aiosched dags test` runs a DAG in one process",
        "workers": "workers are configured in [executor]",
        "execution_api": "workers are configured in [executor]",
        "operators": "defaults of operators are in default_args of your DAGs",
        "sensors": "the timeout of a sensor is its own parameter",
        "secrets": "the class in backend is the kind of a table [[secrets.backends]], backend_kwargs its other keys",
        "state_store": "state stores have one implementation",
        "lineage": "nothing of it exists here",
        "openlineage": "of the provider openlineage",
        "hive": "of the provider apache-hive",
        "usage_data_collection": "aiosched sends no usage data",
        "sentry": "use Sentry's SDK in your DAGs",
        "atlas": "nothing of it exists here",
        "kerberos": "Kerberos belongs to the provider's hook",
        "elasticsearch": "logs.remote stores task logs in object storage",
        "elasticsearch_configs": "logs.remote stores task logs in object storage",
        "opensearch": "logs.remote stores task logs in object storage",
        "dask": "executor.kind = dask, [dask]",
        "mesos": "nothing of it exists here",
        "celery": "executor.kind = celery, [celery]: its broker and a key; queues are those of tasks",
        "celery_kubernetes_executor": "executor.kind = celery,kubernetes; a task chooses with executor=",
        "local_kubernetes_executor": "executor.kind = local,kubernetes; a task chooses with executor=",
        "celery_broker_transport_options": "executor.kind = celery, [celery]",
        "celery_result_backend_transport_options": "executor.kind = celery, [celery]",
        "kubernetes": "executor.kind = kubernetes, [kubernetes]",
        "kubernetes_executor": "executor.kind = kubernetes, [kubernetes]",
        "kubernetes_environment_variables": "[kubernetes] pod_template_file",
        "kubernetes_secrets": "[kubernetes] pod_template_file",
        "kubernetes_labels": "[kubernetes] pod_template_file",
        "kubernetes_annotations": "[kubernetes] pod_template_file",
        "kubernetes_node_selectors": "[kubernetes] pod_template_file",
        "dag_processor": "[[dags.bundles]]: see docs/bundles.md",
        "aws": "of the provider amazon",
        "azure_remote_logging": "logs.remote_options",
        "github_enterprise": "users and roles: web.auth, `aiosched users`",
    }
)
