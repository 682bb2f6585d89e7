"""Settings, their defaults and where they come from.

Lives here: the sections as pydantic models, and `load_settings`, which puts them together:
flag over environment over file over default. The file is `aiosched.toml` in the working
directory, or `[tool.aiosched]` of its `pyproject.toml`; folders above are not searched, so
that relative paths always mean the directory where the command is typed.

Source: the user journey, section 3; option names and defaults from the semantics reference,
section 32, where the meaning is the same.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from aiosched.errors import ConfigError, did_you_mean


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


EXECUTORS: Final = ("local", "inline")
EXECUTOR_PLUGINS: Final = "aiosched.executors"  # the group of entry points by which packages add others


def _joined(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _executors(kinds: str) -> str:
    names = [kind.strip() for kind in kinds.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("must be an executor, or several different ones with commas between them")
    if any(name not in EXECUTORS for name in names):
        from importlib.metadata import entry_points

        known = (*EXECUTORS, *sorted(entry_points(group=EXECUTOR_PLUGINS).names))
        if strange := [name for name in names if name not in known]:
            raise ValueError(f"{strange[0]!r} is not an executor that is installed here: these are {', '.join(known)}")
    return ",".join(names)


LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]
WeightRule = Literal["downstream", "upstream", "absolute"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class CoreSettings(_Section):
    """Meanings and defaults as in Airflow where the name is the same."""

    dags_folder: Path = Field(default=Path("dags"), description="where the DAG files are")
    home: Path = Field(default=Path(".aiosched"), description="the embedded database and the logs live here")
    default_timezone: Annotated[str, AfterValidator(_known_timezone)] = Field(
        default="UTC", description="time zone of schedules whose DAG names none"
    )
    parallelism: int = Field(default=32, ge=1, description="tasks that one scheduler runs at a time")
    max_active_tasks_per_dag: int = Field(
        default=16, ge=1, description="running tasks of a DAG that says nothing itself"
    )
    max_active_runs_per_dag: int = Field(default=16, ge=1, description="running runs of a DAG that says nothing itself")
    max_consecutive_failed_dag_runs_per_dag: int = Field(
        default=0, ge=0, description="failed runs in a row that pause a DAG that says nothing itself; 0: never"
    )
    dags_are_paused_at_creation: bool = Field(default=False, description="new DAGs wait for an unpause")
    default_task_retries: int = Field(
        default=0, ge=0, le=30_000, description="retries of a task that says nothing itself"
    )
    default_task_retry_delay: float = Field(default=300.0, ge=0, description="seconds between two tries")
    max_task_retry_delay: float = Field(default=86400.0, ge=0, description="seconds; a growing retry delay stops here")
    default_task_weight_rule: WeightRule = Field(default="downstream", description="how priority weights add up")
    default_pool_task_slot_count: int = Field(
        default=128, ge=-1, description="slots of default_pool when it is created"
    )
    dagbag_import_timeout: float = Field(
        default=30.0, gt=0, description="seconds that the import of a DAG file may take"
    )
    dag_discovery_safe_mode: bool = Field(default=True, description="skip files that do not mention aiosched and dag")
    killed_task_cleanup_time: float = Field(default=60.0, ge=0, description="seconds between TERM and KILL of a task")
    check_slas: bool = Field(default=True, description="whether missed SLAs of tasks are recorded and told of")
    max_map_length: int = Field(
        default=1024, ge=1, description="longest value that a task may return when others are mapped over it"
    )
    max_xcom_bytes: int = Field(default=1_048_576, ge=0, description="largest XCom value, as JSON")
    max_log_bytes: int = Field(default=104_857_600, ge=0, description="largest log of one attempt")


class DatabaseSettings(_Section):
    dsn: str | None = Field(default=None, description="postgresql://user:password@host:port/database; unset: embedded")
    pool_size: int = Field(default=8, ge=2, description="connections that one process keeps at most")
    connect_timeout: float = Field(default=10.0, gt=0, description="seconds to wait for the database at start")
    pgbouncer: bool = Field(default=False, description="dsn leads to a pgbouncer in transaction mode")
    direct_dsn: str | None = Field(
        default=None, description="the same database without the pgbouncer; schedulers and `db` commands need it"
    )


class SchedulerSettings(_Section):
    name: str | None = Field(default=None, description="unset: the host name")
    lease: float = Field(default=15.0, gt=0, description="seconds after which a silent scheduler is taken over")
    safety_poll: float = Field(default=10.0, gt=0, description="seconds between two looks for news that got lost")
    max_dagruns_to_create_per_loop: int = Field(default=100, ge=1, description="runs created in one transaction")
    allowed_run_id_pattern: Annotated[str, AfterValidator(_regex)] = Field(
        default=r"^[A-Za-z0-9_.~:+-]+$", description="what the run ids that people give may look like"
    )
    max_triggers: int = Field(default=10_000, ge=1, description="triggers that one scheduler lets wait at a time")
    grace: float = Field(default=30.0, ge=0, description="seconds that Ctrl-C or TERM waits for running tasks")
    task_queued_timeout: float = Field(
        default=600.0, gt=0, description="seconds after which an attempt that its executor has not begun is revoked"
    )
    num_stuck_in_queued_retries: int = Field(
        default=2, ge=0, description="times that such an attempt is queued again before it fails"
    )
    passed_over_limit: float = Field(
        default=600.0, gt=0, description="seconds after which a DAG's first waiting task goes before any other priority"
    )
    retention_days: float = Field(
        default=0.0, ge=0, description="days after which finished runs are removed, as by `db clean`; 0: never"
    )


class ExecutorSettings(_Section):
    kind: Annotated[str, BeforeValidator(_joined), AfterValidator(_executors)] = Field(
        default="local",
        description="local: worker processes; inline: this process; several with commas: tasks choose by executor=…, "
        "the first is the default",
    )
    slots: int | None = Field(default=None, ge=1, description="plain functions at a time; unset: four for each core")
    async_slots: int = Field(default=1000, ge=1, description="async tasks at a time")
    isolation: Literal["warm", "fresh"] = Field(default="warm", description="fresh: a new process for each attempt")
    missing_dag_retries: int = Field(
        default=3, ge=0, description="times that a task whose DAG a worker cannot load is called again before it fails"
    )
    missing_dag_retry_delay: float = Field(default=60.0, ge=0, description="seconds between these calls")


class ParsingSettings(_Section):
    processes: int | None = Field(default=None, ge=1, description="unset: one for each core, at most 4")
    min_file_process_interval: float = Field(
        default=30.0, ge=0, description="seconds before an unchanged file is read again"
    )
    reparse_interval: float = Field(
        default=300.0, ge=0, description="seconds before an unchanged file is parsed again; 0: only when it changes"
    )
    refresh_interval: float = Field(default=300.0, gt=0, description="seconds between two listings of the folder")
    file_timeout: float = Field(default=50.0, gt=0, description="seconds that one file may take in all")
    max_memory_bytes: int = Field(
        default=1_073_741_824, ge=67_108_864, description="memory that parsing one file may take"
    )
    max_result_bytes: int = Field(default=67_108_864, ge=1024, description="largest serialized result of one file")
    max_output_bytes: int = Field(default=1_048_576, ge=0, description="how much a file may print")
    cleanup_interval: float = Field(default=60.0, gt=0, description="seconds between two looks for unused assets")


class SecretsSettings(_Section):
    fernet_keys: str | None = Field(
        default=None,
        description="keys for variables and connections, comma separated: the first encrypts, all decrypt; "
        "unset: a file in core.home, for the embedded database",
    )


class LogSettings(_Section):
    level: LogLevel = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    format: Literal["auto", "text", "json"] = Field(
        default="auto", description="auto: text on a terminal, else JSON lines"
    )
    folder: Path | None = Field(default=None, description="logs of task attempts; unset: logs in core.home")


class WebSettings(_Section):
    host: str = Field(default="127.0.0.1", description="address that the web server listens on")
    port: int = Field(default=8484, ge=0, le=65535, description="a taken port is replaced by the next free one")
    auth: Literal["none", "password", "oidc"] | None = Field(
        default=None,
        description="how people log in; unset: no login, which only an address of this machine allows",
    )
    admin_password: str | None = Field(
        default=None, description="makes the first user, `admin`, while there is none; for containers"
    )
    allowed_hosts: str = Field(
        default="",
        description="names that the server answers to, comma separated; unset: without login those of this machine",
    )
    oidc_issuer: str | None = Field(default=None, description="address of the provider of logins, as it calls itself")
    oidc_client_id: str | None = Field(default=None, description="what the provider calls this server")
    oidc_client_secret: str | None = Field(default=None, description="its secret, where it has one besides PKCE")
    oidc_scopes: str = Field(default="openid profile email", description="what is asked of the provider")
    oidc_name_claim: str = Field(
        default="preferred_username", description="claim that names a person; the provider must keep it unique"
    )
    oidc_role_claim: str = Field(default="groups", description="claim that gives roles; dots lead into objects")
    oidc_roles: str = Field(default="", description="values of that claim: admin=ops|leads, operator=…, viewer=…")
    oidc_default_role: Literal["viewer", "operator", "admin"] | None = Field(
        default=None, description="role of people whom oidc_roles gives none; unset: they may not enter"
    )
    prefix: str = Field(
        default="",
        max_length=200,
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="path under which a proxy that strips it offers this server, such as /flows",
    )
    session_hours: float = Field(default=12.0, gt=0, le=8760, description="how long a login lasts")


class MetricsSettings(_Section):
    statsd_host: str | None = Field(default=None, description="where StatsD listens, by UDP; unset: nowhere")
    statsd_port: int = Field(default=8125, ge=1, le=65535, description="its port")
    statsd_prefix: str = Field(default="aiosched", description="put before each name; empty: Airflow's bare names")
    statsd_interval: float = Field(default=5.0, gt=0, description="seconds between two times")


class Settings(_Section):
    """All settings of one process. Flag over environment over file over default."""

    core: CoreSettings = Field(default_factory=CoreSettings)
    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    executor: ExecutorSettings = Field(default_factory=ExecutorSettings)
    parsing: ParsingSettings = Field(default_factory=ParsingSettings)
    secrets: SecretsSettings = Field(default_factory=SecretsSettings)
    logs: LogSettings = Field(default_factory=LogSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)

    @property
    def logs_folder(self) -> Path:
        """Where the logs of task attempts lie, absolute."""
        return (self.logs.folder or self.core.home / "logs").absolute()


# ---- where values come from ----

Source = Literal["flag", "environment", "file", "default"]

SHORT_NAMES: Final = MappingProxyType(
    {"AIOSCHED_DSN": "database.dsn", "AIOSCHED_HOME": "core.home", "AIOSCHED_DAGS": "core.dags_folder"}
)
FLAGS: Final = MappingProxyType(
    {
        "database.dsn": "--dsn",
        "core.dags_folder": "--dags",
        "core.home": "--home",
        "core.parallelism": "--parallelism",
        "executor.kind": "--executor",
        "executor.slots": "--slots",
        "scheduler.name": "--name",
        "scheduler.grace": "--grace",
        "logs.level": "--log-level",
        "web.host": "--host",
        "web.port": "--port",
    }
)
_ADDRESSES: Final = frozenset({"database.dsn", "database.direct_dsn"})
SECRET_KEYS: Final = _ADDRESSES | {"secrets.fernet_keys", "web.admin_password"}

_LONG_PREFIX: Final = "AIOSCHED__"
_SHORT_PREFIX: Final = "AIOSCHED_"
_FROM_FILE: Final = "__FILE"
_NOT_SETTINGS: Final = ("AIOSCHED_VAR_", "AIOSCHED_CONN_")  # variables and connections of DAGs
_OF_KUBERNETES: Final = re.compile(r"_(SERVICE|PORT)(_|$)")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: the flag, the variable or the file that holds it (None for a default)."""

    source: Source
    name: str | None = None

    def __str__(self) -> str:
        return self.name if self.name is not None else self.source


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings and, for each key such as `core.parallelism`, its origin."""

    settings: Settings
    origins: Mapping[str, Origin]

    def values(self) -> dict[str, Any]:
        """Every key with its value, in the order of the sections; secrets are hidden."""
        return {key: shown(key, getattr(getattr(self.settings, s), name)) for key, s, name, _ in setting_fields()}


class SettingField(NamedTuple):
    """One setting: `core.parallelism`, its section, its name in it and what pydantic knows of it."""

    key: str
    section: str
    name: str
    info: FieldInfo


def setting_fields() -> Iterator[SettingField]:
    """Every setting there is, in the order of the sections."""
    for section, info in Settings.model_fields.items():
        model = info.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        for name, field in model.model_fields.items():
            yield SettingField(f"{section}.{name}", section, name, field)


def load_settings(
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """Read all sources. `overrides` are flags, by key (`{"database.dsn": …}`); None means not given.

    `environ` and `folder` default to those of the process. An empty variable counts as
    not set. Raises ConfigError naming the file or variable for a key that does not exist
    (with the nearest one that does), for a value that is not allowed, and for one key set
    twice in the same kind of source.
    """
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if folder is None else folder
    found: dict[str, tuple[Any, Origin]] = {}
    found.update(_from_file(folder))
    found.update(_from_environment(environ))
    for key, value in (overrides or {}).items():
        if value is not None:
            found[key] = value, Origin("flag", FLAGS.get(key, "an argument"))
    origins = {field.key: Origin("default") for field in setting_fields()}
    origins.update({key: origin for key, (_, origin) in found.items()})
    return Loaded(_build(found), MappingProxyType(origins))


def _build(found: Mapping[str, tuple[Any, Origin]]) -> Settings:
    sections: dict[str, dict[str, Any]] = {}
    for key, (value, _) in found.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    try:
        return Settings.model_validate(sections)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"][:2]))
        value, origin = found[key]
        problem = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{key} = {shown(key, value)} (from {origin}): {problem[0].lower()}{problem[1:]}") from None


def _from_file(folder: Path) -> dict[str, tuple[Any, Origin]]:
    own, project = folder / "aiosched.toml", folder / "pyproject.toml"
    table = _read_toml(own) if own.is_file() else None
    in_project = _read_toml(project).get("tool", {}).get("aiosched") if project.is_file() else None
    if table is not None and in_project is not None:
        raise ConfigError(
            "There are settings in aiosched.toml and in [tool.aiosched] of pyproject.toml. Keep them in one file."
        )
    if table is None and in_project is None:
        return {}
    where = "aiosched.toml" if table is not None else "pyproject.toml"
    return _flatten(table if table is not None else in_project, where)


def _flatten(table: Any, where: str) -> dict[str, tuple[Any, Origin]]:
    known = {field.key for field in setting_fields()}
    found: dict[str, tuple[Any, Origin]] = {}
    for section, content in table.items():
        if section not in Settings.model_fields:
            raise ConfigError(f"{where} has an unknown section [{section}].{_near(section, Settings.model_fields)}")
        if not isinstance(content, dict):
            raise ConfigError(f"{where}: {section} is a section: write [{section}], and its settings below.")
        for name, value in content.items():
            key = f"{section}.{name}"
            if key not in known:
                raise ConfigError(f"{where} sets {key}, which does not exist.{_near(key, known)}")
            found[key] = value, Origin("file", where)
    return found


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, Origin]]:
    keys = {f"{_LONG_PREFIX}{f.section}__{f.name}".upper(): f.key for f in setting_fields()} | dict(SHORT_NAMES)
    found: dict[str, tuple[Any, Origin]] = {}
    for variable in sorted(environ):
        plain = variable.removesuffix(_FROM_FILE)
        if plain not in keys:
            _refuse_unknown_variable(variable, keys)
            continue
        if environ[variable] == "":
            continue
        key = keys[plain]
        if key in found:
            raise ConfigError(f"{found[key][1]} and {variable} both set {key}. Keep one of them.")
        value = environ[variable] if variable == plain else _read_secret(variable, environ[variable])
        found[key] = value, Origin("environment", variable)
    return found


def _refuse_unknown_variable(variable: str, keys: Mapping[str, str]) -> None:
    """All that starts like a section is ours; of the rest only what looks like one of our names.

    Others may use the prefix too: Kubernetes sets AIOSCHED_PORT for a service of that name.
    """
    if variable.startswith(_NOT_SETTINGS):
        return
    if variable.startswith(_LONG_PREFIX):
        hint = _near(variable, keys)
    elif variable.startswith(_SHORT_PREFIX) and not _OF_KUBERNETES.search(variable):
        meant = _meant(variable, keys)
        if meant is None:
            return
        hint = f" Did you mean {meant}?"
    else:
        return
    raise ConfigError(f"The environment sets {variable}, which does not exist.{hint}")


def _meant(variable: str, keys: Mapping[str, str]) -> str | None:
    """The variable that one with a single underscore behind the prefix was meant to be, None for somebody else's."""
    rest = variable.removeprefix(_SHORT_PREFIX)
    if "__" in rest:
        return next(iter(get_close_matches(f"{_LONG_PREFIX}{rest}", keys, n=1)), None)
    for name in SHORT_NAMES:
        if rest.startswith(f"{name.removeprefix(_SHORT_PREFIX)}_"):
            return name
    if same := [name for name in keys if name.endswith(f"__{rest}")]:
        return same[0]
    shorts = [name.removeprefix(_SHORT_PREFIX) for name in SHORT_NAMES]
    return next((f"{_SHORT_PREFIX}{name}" for name in get_close_matches(rest, shorts, n=1, cutoff=0.65)), None)


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise ConfigError(f"{variable} names the file {path}, which cannot be read: {reason}.") from None


def _near(name: str, possible: Iterable[str]) -> str:
    return did_you_mean(name, possible, most=1)


# ---- secrets ----


def shown(key: str, value: Any) -> Any:
    """`value` as it may be shown to people: paths as text, the password of a DSN and keys hidden."""
    if key in SECRET_KEYS and isinstance(value, str):
        return hide_password(value) if key in _ADDRESSES else "***"
    return str(value) if isinstance(value, Path) else value


_USER_INFO: Final = re.compile(r"(?<=://)(?P<user>[^:/?#]*):(?P<password>.*)@(?=[^@]*$)")
_PASSWORD_WORD: Final = re.compile(r"(?P<key>\bpassword=)(?:'[^']*'|[^&\s]*)")


def hide_password(dsn: str) -> str:
    """The address with `***` in the place of its password."""
    return _PASSWORD_WORD.sub(r"\g<key>***", _USER_INFO.sub(r"\g<user>:***@", dsn))
