"""`airflow.configuration.conf`: aiosched's settings under the names that Airflow has for them.

An option that has no counterpart here is read from its variable `AIRFLOW__SECTION__KEY`, from the `airflow.cfg` of the
project, then from the defaults of Airflow and of installed provider packages. Else there is the fallback.
"""

from __future__ import annotations

import configparser
import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aiosched.airflow.objects.failures import AirflowConfigException
from aiosched.airflow.objects.loading import import_string
from aiosched.airflow.objects.sessions import is_test
from aiosched.airflow.tables import settings as defaults_of_airflow
from aiosched.airflow.utils.strings import FALSE_LIKE_VALUES, TRUE_LIKE_VALUES
from aiosched.authoring.base.settings import defaults
from aiosched.config import Settings, load_settings
from aiosched.providers import setting_defaults

__all__ = [  # noqa: F822 - three of them are made on demand
    "AIRFLOW_CONFIG",
    "AIRFLOW_HOME",
    "DAGS_FOLDER",
    "as_dict",
    "conf",
    "get",
    "getboolean",
    "getfloat",
    "getint",
    "getlist",
    "load_standard_airflow_configuration",
    "secrets_backend_list",
]

_MISSING: Final = object()

SETTINGS: Final[Mapping[tuple[str, str], str]] = {
    ("core", "dags_folder"): "core.dags_folder",
    ("core", "default_timezone"): "core.default_timezone",
    ("core", "parallelism"): "core.parallelism",
    ("core", "max_active_tasks_per_dag"): "core.max_active_tasks_per_dag",
    ("core", "dag_concurrency"): "core.max_active_tasks_per_dag",
    ("core", "max_active_runs_per_dag"): "core.max_active_runs_per_dag",
    ("core", "max_consecutive_failed_dag_runs_per_dag"): "core.max_consecutive_failed_dag_runs_per_dag",
    ("core", "dags_are_paused_at_creation"): "core.dags_are_paused_at_creation",
    ("core", "default_task_retries"): "core.default_task_retries",
    ("core", "default_task_retry_delay"): "core.default_task_retry_delay",
    ("core", "max_task_retry_delay"): "core.max_task_retry_delay",
    ("core", "default_task_execution_timeout"): "core.default_task_execution_timeout",
    ("core", "default_task_weight_rule"): "core.default_task_weight_rule",
    ("core", "default_pool_task_slot_count"): "core.default_pool_task_slot_count",
    ("core", "dagbag_import_timeout"): "core.dagbag_import_timeout",
    ("core", "dag_discovery_safe_mode"): "core.dag_discovery_safe_mode",
    ("core", "killed_task_cleanup_time"): "core.killed_task_cleanup_time",
    ("core", "check_slas"): "core.check_slas",
    ("core", "dag_run_conf_overrides_params"): "core.dag_run_conf_overrides_params",
    ("core", "max_map_length"): "core.max_map_length",
    ("core", "executor"): "executor.kind",
    ("scheduler", "catchup_by_default"): "scheduler.catchup_by_default",
    ("scheduler", "max_dagruns_to_create_per_loop"): "scheduler.max_dagruns_to_create_per_loop",
    ("scheduler", "task_queued_timeout"): "scheduler.task_queued_timeout",
    ("logging", "logging_level"): "logs.level",
}
"""Airflow's sections and keys, and the setting of aiosched that has the same meaning."""

FIXED: Final[Mapping[tuple[str, str], str]] = {
    ("core", "load_examples"): "False",
    ("kubernetes_executor", "namespace"): "default",
    ("kubernetes_executor", "worker_container_repository"): "",
    ("kubernetes_executor", "worker_container_tag"): "",
}
"""What is otherwise than in Airflow, or what a provider package reads that may not be installed."""


@functools.cache
def _settings() -> Settings:
    return load_settings().settings


COMPUTED: Final[Mapping[tuple[str, str], Callable[[], object]]] = MappingProxyType(
    {
        ("api", "base_url"): lambda: defaults().base_url,
        ("webserver", "base_url"): lambda: defaults().base_url,
        ("api", "host"): lambda: _settings().web.host,
        ("webserver", "web_server_host"): lambda: _settings().web.host,
        ("api", "port"): lambda: _settings().web.port,
        ("webserver", "web_server_port"): lambda: _settings().web.port,
        ("core", "base_log_folder"): lambda: _settings().logs_folder,
        ("logging", "base_log_folder"): lambda: _settings().logs_folder,
        ("core", "plugins_folder"): lambda: defaults().plugins_folder or _settings().plugins_folder(),
    }
)
"""What is not the value of one setting."""


class Configuration:
    """What `airflow.configuration.conf` is here: it can be read, and only tests change it."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, str], str] = {}
        self._changed: dict[tuple[str, str], str] = {}  # by tests

    def read(self, filenames: Any, encoding: str | None = None) -> list[str]:
        """Add the options of files to those that are known; the names of the files that could be read.

        In a test they come before the settings.
        """
        parser = configparser.RawConfigParser()
        read = parser.read(filenames, encoding)
        known = self._changed if is_test() else self._added
        known |= {(group.lower(), key): value for group in parser.sections() for key, value in parser[group].items()}
        return read

    def validate(self) -> None:
        """Nothing: an option is looked at when it is read."""

    def get(self, section: str, key: str, fallback: Any = _MISSING, **_: Any) -> Any:
        """The value as text. Raises AioschedError for an option that has none, unless there is a `fallback`."""
        found = self._find(section, key)
        if found is not None:
            return found
        if fallback is not _MISSING:
            return fallback
        variable = _variable(section, key)
        raise AirflowConfigException(
            f"conf.get({section!r}, {key!r}): aiosched has no such setting. Give a fallback=, or set {variable}."
        )

    def getboolean(self, section: str, key: str, **kwargs: Any) -> bool:
        """As `get`, as a truth value."""
        return bool(self._read(_truth, "a truth value", section, key, **kwargs))

    def getint(self, section: str, key: str, **kwargs: Any) -> int:
        """As `get`, as a whole number."""
        number: int = self._read(lambda text: int(float(text)), "a whole number", section, key, **kwargs)
        return number

    def getfloat(self, section: str, key: str, **kwargs: Any) -> float:
        """As `get`, as a number."""
        number: float = self._read(float, "a number", section, key, **kwargs)
        return number

    def getlist(self, section: str, key: str, delimiter: str = ",", **kwargs: Any) -> list[str]:
        """As `get`, as the texts between the delimiters."""
        texts: list[str] = self._read(
            lambda text: [one.strip() for one in text.split(delimiter) if one.strip()], "a list", section, key, **kwargs
        )
        return texts

    def getjson(self, section: str, key: str, **kwargs: Any) -> Any:
        """As `get`, read as JSON."""
        return self._read(json.loads, "JSON", section, key, **kwargs)

    def getimport(self, section: str, key: str, **kwargs: Any) -> Any:
        """The object at the path that the option holds; None when it holds none. Raises AioschedError."""
        path = self.get(section, key, **{"fallback": None, **kwargs})
        if not path:
            return None
        try:
            return import_string(path)
        except ImportError as error:
            raise AirflowConfigException(f"The option {key!r} in section {section!r}: {error}") from error

    def get_mandatory_value(self, section: str, key: str, **kwargs: Any) -> str:
        """As `get`."""
        return str(self.get(section, key, **kwargs))

    def getsection(self, section: str) -> dict[str, str] | None:
        """All options of a section that have a value; None without any."""
        return self.as_dict().get(section.lower())

    def has_option(self, section: str, option: str, **_: Any) -> bool:
        """Whether the option has a value."""
        return self._find(section, option) is not None

    def has_section(self, section: str) -> bool:
        """Whether an option of the section has a value."""
        return section.lower() in self.as_dict()

    def as_dict(self, **_: Any) -> dict[str, dict[str, str]]:
        """All sections with their options that have a value."""
        found: dict[str, dict[str, str]] = {}
        variables = (place for name in os.environ if (place := _place(name)) is not None)
        keys = [
            *defaults_of_airflow(),
            *FIXED,
            *COMPUTED,
            *SETTINGS,
            *_of_project(),
            *self._added,
            *self._changed,
            *variables,
        ]
        for section, key in keys:
            value = self._find(section, key)
            if value is not None:
                found.setdefault(section, {})[key] = value
        return found

    def set(self, section: str, option: str, value: str) -> None:
        """Change it for the tests of this process. Raises AioschedError elsewhere: DAG files change no settings."""
        if is_test():
            self._changed[section.lower(), option.lower()] = str(value)
            return
        raise AirflowConfigException(
            f"conf.set({section!r}, {option!r}, …) in a DAG file has no effect on running services. "
            f"Set {_variable(section, option)} in their environment."
        )

    def _find(self, section: str, key: str) -> str | None:
        place = (section.lower(), key.lower())
        if (variable := os.environ.get(_variable(*place))) is not None:
            return variable
        if place in self._changed:
            return self._changed[place]
        if place in COMPUTED:
            return _text(COMPUTED[place]())
        if place in SETTINGS:
            group, _, name = SETTINGS[place].partition(".")
            return _text(getattr(getattr(_settings(), group), name))
        for values in (_of_project(), FIXED, setting_defaults(), self._added):
            if place in values:
                return values[place]
        default = defaults_of_airflow().get(place)
        return default and default.replace("{AIRFLOW_HOME}", __getattr__("AIRFLOW_HOME"))

    def _read(
        self, convert: Callable[[str], Any], what: str, section: str, key: str, fallback: Any = _MISSING, **_: Any
    ) -> Any:
        found = self.get(section, key, fallback=fallback)
        if not isinstance(found, str):
            return found
        try:
            return convert(found)
        except ValueError:
            raise AirflowConfigException(
                f"The option {key!r} in section {section!r} is {found!r}, which is not {what}."
            ) from None


def _variable(section: str, key: str) -> str:
    return f"AIRFLOW__{section.upper().replace('.', '_')}__{key.upper()}"


def _place(variable: str) -> tuple[str, str] | None:
    prefix, _, rest = variable.partition("__")
    section, _, key = rest.partition("__")
    return (section.lower(), key.lower()) if prefix == "AIRFLOW" and key else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _of_project() -> Mapping[tuple[str, str], str]:
    """The `airflow.cfg` that AIRFLOW_CONFIG names, or that of AIRFLOW_HOME or of the project; nothing without one."""
    named, home = os.environ.get("AIRFLOW_CONFIG"), os.environ.get("AIRFLOW_HOME")
    folders = [*([home] if home else ()), *defaults().module_folders]
    candidates = [Path(named)] if named else [Path(folder, "airflow.cfg") for folder in folders]
    return next((_read_cfg(path) for path in candidates if path.is_file()), {})


@functools.cache
def _read_cfg(path: Path) -> Mapping[tuple[str, str], str]:
    parser = configparser.ConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        return {(s.lower(), option): value or "" for s in parser.sections() for option, value in parser.items(s)}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise AirflowConfigException(f"{path} cannot be read: {error}") from error


def _truth(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in TRUE_LIKE_VALUES | FALSE_LIKE_VALUES:
        raise ValueError
    return lowered in TRUE_LIKE_VALUES


conf: Final = Configuration()
get, getboolean, getfloat, getint, getlist = conf.get, conf.getboolean, conf.getfloat, conf.getint, conf.getlist
as_dict = conf.as_dict


def load_standard_airflow_configuration(airflow_config_parser: Configuration) -> None:
    """Let a parser that a test has made read the `airflow.cfg` of AIRFLOW_CONFIG, or of AIRFLOW_HOME."""
    airflow_config_parser.read(__getattr__("AIRFLOW_CONFIG"))


class _Backends(list[Any]):
    """Airflow's list of backends, which cannot be changed from here: they are asked elsewhere."""

    def _refuse(self, *_: object) -> None:
        raise AirflowConfigException(
            "Backends of secrets are named in [[secrets.backends]] of aiosched.toml; a test gives variables and "
            "connections as AIOSCHED_VAR_… and AIOSCHED_CONN_… in the environment."
        )

    append = extend = insert = __setitem__ = __iadd__ = _refuse  # type: ignore[assignment]


secrets_backend_list: Final = _Backends()


def __getattr__(name: str) -> str:
    if name == "AIRFLOW_HOME":
        return os.environ.get("AIRFLOW_HOME") or str(_settings().core.home.absolute())
    if name == "AIRFLOW_CONFIG":
        return os.environ.get("AIRFLOW_CONFIG") or str(Path(__getattr__("AIRFLOW_HOME"), "airflow.cfg"))
    if name == "DAGS_FOLDER":
        return str(_settings().core.dags_folder.absolute())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
