"""The sections of settings as pydantic models, with their constraints and defaults.

Elsewhere: where values come from (sources.py). Source: option names and defaults from the semantics reference, section
32, where the meaning is the same.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from aiosched.config.alerts import AlertRuleSettings, NotifierSettings, no_two_of_a_name, read_tables
from aiosched.config.bundles import BundleSettings, no_name_twice, read_bundles
from aiosched.config.project import folders_above, is_folder, module_folders
from aiosched.config.secrecy import Secrecy, SecretAddress, SecretText, split_keys
from aiosched.config.secret_backends import BackendSettings, read_backends
from aiosched.sizes import size_of


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _known_timezone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a time zone of the IANA database, such as UTC or Europe/Amsterdam") from None
    return name


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return pattern


_KEY_BYTES: Final = 32
_MOST_PROCESSES: Final = 64  # there are 64 partitions
EXECUTORS: Final = ("local", "inline")
EXECUTOR_PLUGINS: Final = "aiosched.executors"  # the entry point group by which packages add others


def _joined(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _names(value: Any) -> Any:
    """Names as a list; as text, a JSON list or names between commas."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [name for part in value.split(",") if (name := part.strip())]


def _processes(number: str) -> str:
    if number != "auto" and not (number.isdecimal() and 1 <= int(number) <= _MOST_PROCESSES):
        raise ValueError(f"must be a number from 1 to {_MOST_PROCESSES}, or auto")
    return number


def _size(given: Any) -> Any:
    return None if given is None else size_of(int(given) if str(given).isdecimal() else given)


def _executors(kinds: str) -> str:
    names = [kind.strip() for kind in kinds.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("must be an executor, or several different ones separated by commas")
    if any(name not in EXECUTORS for name in names):
        from importlib.metadata import entry_points

        known = (*EXECUTORS, *sorted(entry_points(group=EXECUTOR_PLUGINS).names))
        if strange := [name for name in names if name not in known]:
            raise ValueError(f"{strange[0]!r} is not an executor that is installed here: these are {', '.join(known)}")
    return ",".join(names)


def _remote_url(url: str | None) -> str | None:
    if url is not None and not re.match(r"^[a-z][a-z0-9+.-]*://.*[^/:]", url):
        raise ValueError("must be the URL of a folder, such as s3://bucket/prefix or file:///mnt/shared")
    return url


def _json_text(value: Any) -> Any:
    """A table of a settings file as JSON, as environment variables have it."""
    return json.dumps(value) if isinstance(value, dict) else value


def _json_object(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError('must be a JSON object, such as {"anon": true}')
    return text


RemoteUrl = Annotated[str | None, AfterValidator(_remote_url), Secrecy.ADDRESS]
StoreOptions = Annotated[str | None, BeforeValidator(_json_text), AfterValidator(_json_object), Secrecy.WHOLE]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]
WeightRule = Literal["downstream", "upstream", "absolute"]
SortMode = Literal["modified_time", "alphabetical", "random_seeded_by_host"]


class _Section(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", validate_assignment=True)


class CoreSettings(_Section):
    """Meanings and defaults as in Airflow where the name is the same."""

    dags_folder: Path = Field(default=Path("dags"), description="folder of the DAG files")
    project_folder: Path | None = Field(
        default=None,
        description="folder with modules that DAG files import, besides those above the DAGs folder",
    )
    plugins_folder: Path | None = Field(
        default=None,
        description="folder of plugins, on the path of DAG files; unset: `plugins` of the project, else of the working "
        "directory",
    )
    home: Path = Field(default=Path(".aiosched"), description="folder of the embedded database and the logs")
    default_timezone: Annotated[str, AfterValidator(_known_timezone)] = Field(
        default="UTC", description="default time zone of schedules"
    )
    parallelism: int = Field(default=32, ge=1, description="maximum number of concurrent tasks of one scheduler")
    max_active_tasks_per_dag: int = Field(default=16, ge=1, description="default limit of running tasks of a DAG")
    max_active_runs_per_dag: int = Field(default=16, ge=1, description="default limit of running runs of a DAG")
    max_consecutive_failed_dag_runs_per_dag: int = Field(
        default=0, ge=0, description="default number of consecutive failed runs that pause a DAG; 0: never"
    )
    dags_are_paused_at_creation: bool = Field(default=False, description="new DAGs are paused")
    default_task_retries: int = Field(default=0, ge=0, le=30_000, description="default number of retries of a task")
    default_task_retry_delay: float = Field(default=300.0, ge=0, description="default seconds between two tries")
    max_task_retry_delay: float = Field(
        default=86400.0, ge=0, description="maximum of a growing retry delay, in seconds"
    )
    default_task_execution_timeout: float | None = Field(
        default=None, gt=0, description="default timeout of a try in seconds; unset: no limit"
    )
    default_task_weight_rule: WeightRule = Field(
        default="downstream", description="default rule by which priority weights add up"
    )
    default_pool_task_slot_count: int = Field(
        default=128, ge=-1, description="slots of default_pool when it is created"
    )
    dagbag_import_timeout: float = Field(
        default=30.0, gt=0, description="timeout of the import of a DAG file, in seconds"
    )
    dag_discovery_safe_mode: bool = Field(default=True, description="skip files that do not mention aiosched and dag")
    dag_ignore_file_syntax: Literal["by file", "glob", "regexp"] = Field(
        default="by file",
        description="syntax of .airflowignore: glob: as .gitignore; regexp: regular expressions, the default of "
        "Airflow 1.10 and 2; by file: regexp, if it has lines that make no sense as globs",
    )
    airflow: Literal["compat", "installed", "off"] = Field(
        default="compat",
        description="who answers `import airflow` in DAG files: compat: aiosched; installed: an Airflow that is "
        "installed, else aiosched; off: never aiosched",
    )
    airflow_defaults: Literal["by file", "2", "3"] = Field(
        default="by file",
        description="whose defaults of catchup and schedule DAG files get that import `airflow`: by file: those of the "
        "version that their names belong to",
    )
    killed_task_cleanup_time: float = Field(default=60.0, ge=0, description="seconds between TERM and KILL of a task")
    check_slas: bool = Field(default=True, description="whether missed SLAs of tasks are recorded and reported")
    dag_run_conf_overrides_params: bool = Field(
        default=True, description="whether a run's conf overrides the params of the same names"
    )
    max_map_length: int = Field(
        default=1024, ge=1, description="maximum length of a value that other tasks are mapped over"
    )
    max_templated_field_length: int = Field(
        default=4096, ge=0, description="maximum length of a rendered template field that is stored, in characters"
    )
    num_dag_runs_to_retain_rendered_fields: int = Field(
        default=30, ge=0, description="number of runs of a DAG whose rendered template fields are kept; 0: of all"
    )
    max_xcom_bytes: int = Field(default=1_048_576, ge=0, description="maximum size of an XCom value as JSON")
    max_log_bytes: int = Field(default=104_857_600, ge=0, description="maximum size of the log of one attempt")


class DatabaseSettings(_Section):
    dsn: SecretAddress = Field(
        default=None, description="postgresql://user:password@host:port/database; unset: embedded"
    )
    embedded_binaries: str | None = Field(
        default=None,
        description="folder with the programs of PostgreSQL (15 to 18) for the embedded server, or machine: one of it "
        "is found; unset: those of the installed wheel, else of this machine",
    )
    password_file: Path | None = Field(
        default=None, description="file with the password of dsn, read with each login: it can change without a stop"
    )
    pool_size: int = Field(default=8, ge=2, description="maximum number of connections of one process")
    connect_timeout: float = Field(default=10.0, gt=0, description="seconds to wait for the database at start")
    pgbouncer: bool = Field(default=False, description="whether dsn is a pgbouncer in transaction mode")
    direct_dsn: SecretAddress = Field(
        default=None, description="the same database without the pgbouncer; schedulers and `db` commands need it"
    )
    read_dsn: SecretAddress = Field(
        default=None,
        description="a replica of the same database by streaming, without a pgbouncer: pages of the web UI are read "
        "from it",
    )


class SchedulerSettings(_Section):
    name: str | None = Field(default=None, description="unset: the host name")
    processes: Annotated[str, BeforeValidator(str), AfterValidator(_processes)] = Field(
        default="1", description="schedulers that `serve` runs; auto: one for every two cores, at most 8"
    )
    lease: float = Field(
        default=15.0, gt=0, description="seconds without a heartbeat after which a scheduler is taken over"
    )
    safety_poll: float = Field(
        default=10.0, gt=0, description="seconds between two polls for notifications that got lost"
    )
    catchup_by_default: bool = Field(default=False, description="default catchup of a DAG")
    max_dagruns_to_create_per_loop: int = Field(
        default=100, ge=1, description="maximum number of runs created in one transaction"
    )
    max_backfill_runs: int = Field(default=10_000, ge=1, description="maximum number of runs of one backfill")
    partition_mapper_max_downstream_keys: int = Field(
        default=1000,
        ge=1,
        description="maximum number of runs to which one asset event leads, unless its mapper sets it",
    )
    allowed_run_id_pattern: Annotated[str, AfterValidator(_regex)] = Field(
        default=r"^[A-Za-z0-9_.~:+-]+$", description="regular expression for custom run ids"
    )
    max_triggers: int = Field(default=10_000, ge=1, description="maximum number of waiting triggers of one scheduler")
    grace: float = Field(default=30.0, ge=0, description="seconds that Ctrl-C or SIGTERM waits for running tasks")
    task_queued_timeout: float = Field(
        default=600.0, gt=0, description="seconds after which an attempt that its executor has not begun is revoked"
    )
    num_stuck_in_queued_retries: int = Field(
        default=2, ge=0, description="number of times that such an attempt is queued again before it fails"
    )
    passed_over_limit: float = Field(
        default=600.0,
        gt=0,
        description="seconds after which a DAG's first waiting task goes before any higher priority",
    )
    retention_days: float = Field(
        default=0.0, ge=0, description="days after which finished runs are removed, as by `db clean`; 0: never"
    )
    state_retention_days: float = Field(
        default=30.0, ge=0, description="days after which a value of a task's state store expires; 0: with its run"
    )


class ExecutorSettings(_Section):
    kind: Annotated[str, BeforeValidator(_joined), AfterValidator(_executors)] = Field(
        default="local",
        description="local: worker processes; inline: this process; several separated by commas: tasks choose with "
        "executor=…, the first is the default",
    )
    slots: int | None = Field(default=None, ge=1, description="concurrent plain functions; unset: four for each core")
    async_slots: int = Field(default=1000, ge=1, description="concurrent async tasks")
    isolation: Literal["warm", "fresh"] = Field(default="warm", description="fresh: a new process for each attempt")
    memory_limit: Annotated[int | None, BeforeValidator(_size)] = Field(
        default=None,
        ge=67_108_864,
        description="memory of a worker process and those that it starts, in bytes or as '2 GiB'; unset: no limit",
    )
    warm_ahead: float = Field(
        default=30.0,
        ge=0,
        le=50,
        description="seconds before a run is due that workers import its DAG file; 0: its first task imports it",
    )
    run_as: str | None = Field(
        default=None,
        min_length=1,
        description="user of this machine as whom tasks run and DAG files are imported; unset: the scheduler's own",
    )
    run_as_users: Annotated[list[str], BeforeValidator(_names)] = Field(
        default=[],
        description="other users of this machine that tasks may name in run_as_user: a USER those of all teams, a "
        "TEAM:USER those of that team; empty: none",
    )
    missing_dag_retries: int = Field(
        default=3,
        ge=0,
        description="number of retries if a worker cannot load the DAG of a task, before the attempt fails",
    )
    missing_dag_retry_delay: float = Field(default=60.0, ge=0, description="seconds between these retries")
    worker_api: str = Field(
        default="",
        description="addresses of web servers that workers on engines reach, comma separated; unset: this machine's",
    )
    worker_lease: float = Field(
        default=30.0, ge=3, description="seconds that a worker on an engine may be silent before its tasks are lost"
    )


class DaskSettings(_Section):
    address: str | None = Field(
        default=None, description="address of a Dask scheduler, tcp://host:8786; unset: a cluster on this machine"
    )
    workers: int | None = Field(default=None, ge=1, description="workers of the cluster on this machine; unset: Dask's")


def _broker(address: str | None) -> str | None:
    if address is not None and not re.match(r"(rediss?|redis\+socket|sentinel|amqps?)://", address):
        raise ValueError(
            "must be the address of a Redis, redis://host:6379/0, or of a RabbitMQ, amqp://host:5672/vhost"
        )
    return address


def _fernet_keys(keys: str | None) -> str | None:
    for key in split_keys(keys) if keys is not None else ():
        try:
            fits = len(base64.urlsafe_b64decode(key)) == _KEY_BYTES
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("must be one or more keys of `aiosched db make-key`, separated by commas")
    return keys or None


def _keys_of_teams(value: Any) -> Any:
    """A table, or JSON: keys by team."""
    if value is None:
        return None
    if isinstance(value, str):
        value = json.loads(_json_object(value) or "{}")
    if not isinstance(value, dict) or not all(isinstance(keys, str) and keys.strip(" ,") for keys in value.values()):
        raise ValueError('must name keys by team, such as {"sales": "…"}')
    if strange := [team for team in value if not team or "," in team]:
        raise ValueError(f"names {strange[0]!r}: a team with queues of its own has a name without commas")
    for keys in value.values():
        _fernet_keys(keys)
    return value


class CelerySettings(_Section):
    broker: Annotated[str | None, AfterValidator(_broker), Secrecy.ADDRESS] = Field(
        default=None,
        description="address of the broker: redis://host:6379/0 or amqp://user:password@host:5672/vhost",
    )
    default_queue: str = Field(
        default="default", min_length=1, max_length=200, description="Celery queue of tasks without a queue"
    )
    keys: Annotated[str | None, AfterValidator(_fernet_keys), Secrecy.WHOLE] = Field(
        default=None,
        description="keys that seal what lies in the broker, the same for schedulers and workers; the first one seals",
    )
    team_keys: Annotated[dict[str, str] | None, BeforeValidator(_keys_of_teams), Secrecy.WHOLE] = Field(
        default=None,
        description='keys of teams with workers of their own: {"sales": "…"}; their queues are sales.default …',
    )


class KubernetesSettings(_Section):
    kubeconfig: Path | None = Field(
        default=None, description="kubeconfig file; unset: the service account of this pod, else the default file"
    )
    context: str | None = Field(default=None, description="context of the kubeconfig; unset: its current one")
    instance: str = Field(
        default="aiosched",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$",
        description="name of this installation, on all of its pods; each that shares a namespace needs its own",
    )
    namespace: str | None = Field(
        default=None, description="namespace of pods; unset: that of this pod or of the context, else `default`"
    )
    namespaces: str = Field(
        default="", description="other namespaces that tasks may choose as their queue, comma separated"
    )
    pod_template_file: Path | None = Field(default=None, description="YAML file with a Pod from which all are made")
    pod_override_allows: Annotated[list[str], BeforeValidator(_names)] = Field(
        default=[],
        description="what a pod_override may have besides the allowed parts, such as spec.serviceAccountName; for DAGs "
        "of one team sales:spec.serviceAccountName",
    )
    image: str | None = Field(default=None, description="image of the worker; unset: that of the template")
    service_account: str | None = Field(default=None, description="service account of pods; unset: `default`")
    worker_container_name: str = Field(default="base", description="name of the container that runs the attempt")
    max_pods: int = Field(
        default=100, ge=1, description="maximum number of plain functions of one scheduler, and of its async tasks"
    )
    min_idle: int = Field(
        default=0, ge=0, description="number of idle pods that wait for tasks without a pod_override; 0: none"
    )
    requests_per_second: float = Field(default=50.0, gt=0, description="maximum rate of requests to the Kubernetes API")
    delete_pods: Literal["always", "on success", "never"] = Field(
        default="always", description="which finished pods are deleted: always, on success, never"
    )
    startup_timeout: float = Field(
        default=300.0, gt=0, description="seconds after which a pod that has not started is given up"
    )
    startup_error_timeout: float = Field(
        default=60.0, ge=0, description="the same in seconds if its image cannot be pulled or its settings are wrong"
    )


class ParsingSettings(_Section):
    processes: int | None = Field(default=None, ge=1, description="unset: one for each core, at most 4")
    min_file_process_interval: float = Field(
        default=30.0,
        ge=0,
        description="minimum seconds before an unchanged file is parsed again; so often only if it reads variables or "
        "connections, and for at most 1 % of a core",
    )
    reparse_interval: float = Field(
        default=300.0,
        ge=0,
        description="the same in seconds for other files; 0: an unchanged file is never parsed again",
    )
    refresh_interval: float = Field(
        default=300.0,
        gt=0,
        description="maximum seconds between two listings of the folder; every 5 while they take 0.5 % of the time",
    )
    file_parsing_sort_mode: SortMode = Field(
        default="modified_time", description="order of waiting files: newest first, by name, or random"
    )
    file_timeout: float = Field(default=50.0, gt=0, description="total timeout of one file, in seconds")
    max_memory_bytes: int = Field(default=1_073_741_824, ge=67_108_864, description="memory limit of parsing one file")
    max_result_bytes: int = Field(
        default=67_108_864, ge=1024, description="maximum size of the serialized result of one file"
    )
    max_output_bytes: int = Field(default=1_048_576, ge=0, description="maximum output of a file")
    cleanup_interval: float = Field(default=60.0, gt=0, description="seconds between two checks for unused assets")


class DagsSettings(_Section):
    bundles: Annotated[list[BundleSettings], BeforeValidator(read_bundles), AfterValidator(no_name_twice)] = Field(
        default=[],
        description="sources of DAG files, a table [[dags.bundles]] for each; empty: only core.dags_folder",
    )
    pin_code: bool = Field(
        default=False, description="runs keep the code that they began with, also if it comes from a folder"
    )
    keep_days: float = Field(
        default=7.0, ge=0, description="days for which the code of finished runs stays in the cache"
    )


class SecretsSettings(_Section):
    fernet_keys: SecretText = Field(
        default=None,
        description="keys for variables and connections, comma separated: the first encrypts, all decrypt; "
        "unset: a file in core.home, for the embedded database",
    )
    backends: Annotated[list[BackendSettings], BeforeValidator(read_backends), Secrecy.BACKENDS] = Field(
        default=[],
        description="other places of variables and connections, a table [[secrets.backends]] for each; asked first",
    )
    cache_seconds: float = Field(
        default=60.0, ge=0, description="seconds for which what a backend has answered is kept; 0: it is always asked"
    )
    timeout: float = Field(default=10.0, gt=0, description="seconds that a backend may take for one answer")


class LogSettings(_Section):
    level: LogLevel = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    format: Literal["auto", "text", "json"] = Field(
        default="auto", description="auto: text on a terminal, else JSON lines"
    )
    folder: Path | None = Field(default=None, description="folder of task logs; unset: logs in core.home")
    retention_days: float = Field(
        default=30.0, ge=0, description="days after which the logs of ended runs are removed; 0: never"
    )
    remote: RemoteUrl = Field(
        default=None,
        description="URL of a folder in remote storage for task logs, such as s3://bucket/logs; unset: only `folder`",
    )
    remote_options: StoreOptions = Field(
        default=None, description="JSON object with fsspec's options for that store; unset: as the environment says"
    )
    keep_local: bool = Field(
        default=True, description="whether a log stays in `folder` after it was written to `remote`"
    )


class XComSettings(_Section):
    remote: RemoteUrl = Field(
        default=None,
        description="URL of a folder in remote storage for large XComs; unset: all are in the database",
    )
    remote_options: StoreOptions = Field(
        default=None, description="JSON object with fsspec's options for that store; unset: as the environment says"
    )
    remote_from: int = Field(
        default=262_144, ge=1, description="size as JSON from which on an XCom goes there, in bytes"
    )
    max_remote_bytes: int = Field(
        default=268_435_456, ge=1, description="maximum size of an XCom that goes there, as JSON"
    )


class WebSettings(_Section):
    host: str = Field(default="127.0.0.1", description="address of the web server")
    port: int = Field(
        default=8484,
        ge=0,
        le=65535,
        description="port of the web server; if it is not set and the default is taken, the next free one",
    )
    auth: Literal["none", "password", "oidc"] | None = Field(
        default=None,
        description="how users log in; unset: as loopback_login says, which is allowed only for a loopback address",
    )
    loopback_login: Literal["token", "none"] = Field(
        default="token",
        description="at a loopback address without `auth`: the printed address has a one-time token that logs in; "
        "none: every user and program of this machine is an administrator",
    )
    admin_password: SecretText = Field(
        default=None, description="password of the first user, `admin`, created if there is no user; for containers"
    )
    allowed_hosts: str = Field(
        default="",
        description="host names to answer to besides addresses and names of this machine, comma separated; unset: all "
        "with a login, no others without",
    )
    trusted_proxies: str = Field(
        default="",
        description="addresses and networks of proxies in front whose X-Forwarded-For and X-Forwarded-Proto are "
        "believed, comma separated; unset: those in FORWARDED_ALLOW_IPS, else nobody",
    )
    oidc_issuer: str | None = Field(default=None, description="issuer of the identity provider, as it names itself")
    oidc_client_id: str | None = Field(default=None, description="client id of this server at the provider")
    oidc_client_secret: SecretText = Field(default=None, description="client secret, if there is one besides PKCE")
    oidc_scopes: str = Field(default="openid profile email", description="requested scopes")
    oidc_name_claim: str = Field(
        default="preferred_username", description="claim with the user's name; the provider must keep it unique"
    )
    oidc_role_claim: str = Field(default="groups", description="claim with the roles; dots go into objects")
    oidc_roles: str = Field(
        default="", description="values of that claim: admin=ops|leads, editor=…, operator=…, viewer=…"
    )
    oidc_grants: str = Field(
        default="",
        description="roles for some DAGs by value of that claim: sales=viewer@team:sales|operator@tag:etl, …",
    )
    oidc_default_role: Literal["viewer", "operator", "editor", "admin"] | None = Field(
        default=None, description="role of users to whom oidc_roles gives none; unset: they have no access"
    )
    prefix: str = Field(
        default="",
        max_length=200,
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="prefix that a proxy strips from addresses of this server, such as /flows",
    )
    base_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#]+(/[^?#]*)?$",
        description="address of the web server for people, in links such as `ti.log_url`; unset: host, port and prefix",
    )
    instance_name: str = Field(
        default="",
        max_length=30,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="name of this installation, such as PROD, beside the logo and in the titles of tabs",
    )
    instance_color: Literal["red", "orange", "green", "blue", "purple", "grey"] = Field(
        default="grey", description="colour of that name"
    )
    airflow_api: bool = Field(default=False, description="whether /api/v2 answers a subset of Airflow's REST API")
    session_hours: float = Field(default=12.0, gt=0, le=8760, description="duration of a session")
    session_idle_hours: float = Field(
        default=8.0, gt=0, le=8760, description="hours after which a session ends that nobody uses"
    )
    oidc_token_days: float = Field(
        default=30.0, gt=0, le=3650, description="days after the last login at which tokens of users with OIDC end"
    )
    max_token_days: float = Field(default=365.0, ge=0, description="most days until a new token expires; 0: no limit")


class AuditSettings(_Section):
    retention_days: float = Field(
        default=400.0,
        ge=0,
        description="days after which entries of the audit log are removed, at least 7; 0: never",
    )
    syslog: str | None = Field(
        default=None,
        pattern=r"^((udp|tcp)://(\[[0-9A-Fa-f:]+\]|[^/:\[\]\s]+)(:[0-9]{1,5})?|unix:///\S+)$",
        description="where the audit log is sent: udp://host:514, tcp://host:514 or unix:///dev/log; unset: nowhere",
    )


class AlertsSettings(_Section):
    interval: float = Field(
        default=30.0, ge=0, description="seconds between two evaluations of the alert rules; 0: none here"
    )
    notifiers: Annotated[
        list[NotifierSettings], BeforeValidator(read_tables), AfterValidator(no_two_of_a_name), Secrecy.NOTIFIERS
    ] = Field(
        default=[],
        description="where alerts are sent, a table [[alerts.notifiers]] for each: mail, webhook, or a class",
    )
    rules: Annotated[list[AlertRuleSettings], BeforeValidator(read_tables), AfterValidator(no_two_of_a_name)] = Field(
        default=[], description="alert rules, a table [[alerts.rules]] for each, besides those of the web UI"
    )
    retention_days: float = Field(
        default=30.0, ge=1, description="days after which alerts that have recovered are removed"
    )


class MetricsSettings(_Section):
    token: SecretText = Field(
        default=None, description="bearer token for /metrics and the details of /health, besides logins"
    )
    public: bool = Field(default=False, description="whether /metrics answers everybody")
    statsd_host: str | None = Field(default=None, description="UDP address of StatsD; unset: off")
    statsd_port: int = Field(default=8125, ge=1, le=65535, description="its port")
    statsd_prefix: str = Field(default="aiosched", description="prefix of each name; empty: Airflow's bare names")
    statsd_interval: float = Field(default=5.0, gt=0, description="seconds between two sends")


class FigureSettings(_Section):
    keep_minutes_days: float = Field(
        default=7.0, ge=0, le=31, description="days for which figures of each minute are kept; 0: none are written"
    )
    keep_hours_days: float = Field(
        default=90.0, ge=0, le=3660, description="days for which figures of each hour are kept"
    )


class Settings(_Section):
    """All settings of one process. Precedence: flag, environment, file, default."""

    core: CoreSettings = Field(default_factory=CoreSettings)
    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    executor: ExecutorSettings = Field(default_factory=ExecutorSettings)
    dask: DaskSettings = Field(default_factory=DaskSettings)
    celery: CelerySettings = Field(default_factory=CelerySettings)
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings)
    parsing: ParsingSettings = Field(default_factory=ParsingSettings)
    dags: DagsSettings = Field(default_factory=DagsSettings)
    secrets: SecretsSettings = Field(default_factory=SecretsSettings)
    logs: LogSettings = Field(default_factory=LogSettings)
    xcom: XComSettings = Field(default_factory=XComSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    alerts: AlertsSettings = Field(default_factory=AlertsSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    figures: FigureSettings = Field(default_factory=FigureSettings)

    @property
    def logs_folder(self) -> Path:
        """The folder of task logs, absolute."""
        return (self.logs.folder or self.core.home / "logs").absolute()

    def module_folders(self, dags_folder: Path | None = None) -> list[Path]:
        """Where modules of the project of `dags_folder` (None: that of the settings) are besides it, absolute."""
        return module_folders(self._projects(dags_folder))

    def plugins_folder(self, dags_folder: Path | None = None) -> Path:
        """The folder of plugins, absolute: of the settings, else of the project; it need not exist."""
        if (named := self.core.plugins_folder) is not None:
            return named.absolute()
        candidates = [folder / "plugins" for folder in (*self._projects(dags_folder), Path.cwd())]
        return next(filter(is_folder, candidates), candidates[0])

    def _projects(self, dags_folder: Path | None) -> list[Path]:
        around = dags_folder or (None if self.dags.bundles else self.core.dags_folder)
        named = self.core.project_folder
        return [*(folders_above(around) if around else ()), *([named.absolute()] if named else ())]
