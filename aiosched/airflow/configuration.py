"""`airflow.configuration.conf`: aiosched's settings under the names that Airflow has for them.

An option that has no counterpart here is read from its variable `AIRFLOW__SECTION__KEY`; else the default of an
installed provider package applies, else the fallback.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiosched.airflow.objects.failures import AirflowConfigException
from aiosched.airflow.objects.loading import import_string
from aiosched.airflow.utils.strings import FALSE_LIKE_VALUES, TRUE_LIKE_VALUES
from aiosched.authoring.base.settings import defaults
from aiosched.config import Settings, load_settings
from aiosched.providers import setting_defaults

__all__ = [  # noqa: F822 - two of them are made on demand
    "AIRFLOW_HOME",
    "DAGS_FOLDER",
    "as_dict",
    "conf",
    "get",
    "getboolean",
    "getfloat",
    "getint",
    "getlist",
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
    ("core", "unit_test_mode"): "False",
    ("operators", "default_deferrable"): "false",
    ("operators", "default_owner"): "airflow",
    ("operators", "default_queue"): "default",
    ("kubernetes", "namespace"): "default",
    ("kubernetes", "worker_container_repository"): "",
    ("kubernetes", "worker_container_tag"): "",
    ("kubernetes_executor", "namespace"): "default",
    ("kubernetes_executor", "worker_container_repository"): "",
    ("kubernetes_executor", "worker_container_tag"): "",
    ("smtp", "smtp_mail_from"): "airflow@example.com",
}
"""Values of Airflow that DAG files and provider packages read without a fallback."""

_BASE_URLS: Final = frozenset({("api", "base_url"), ("webserver", "base_url")})


class Configuration:
    """What `airflow.configuration.conf` is here: it can be read, and not be changed."""

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
        keys = [*FIXED, *_BASE_URLS, *SETTINGS, *(place for name in os.environ if (place := _place(name)) is not None)]
        for section, key in keys:
            value = self._find(section, key)
            if value is not None:
                found.setdefault(section, {})[key] = value
        return found

    def set(self, section: str, option: str, value: str) -> None:
        """Raises AioschedError: settings are not changed by DAG files."""
        raise AirflowConfigException(
            f"conf.set({section!r}, {option!r}, …) in a DAG file has no effect on running services. "
            f"Set {_variable(section, option)} in their environment."
        )

    def _find(self, section: str, key: str) -> str | None:
        place = (section.lower(), key.lower())
        if (variable := os.environ.get(_variable(*place))) is not None:
            return variable
        if place in _BASE_URLS:
            return defaults().base_url
        if place in SETTINGS:
            group, _, name = SETTINGS[place].partition(".")
            value = getattr(getattr(_settings(), group), name)
            return None if value is None else str(value)
        return FIXED[place] if place in FIXED else setting_defaults().get(place)

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


def _truth(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in TRUE_LIKE_VALUES | FALSE_LIKE_VALUES:
        raise ValueError
    return lowered in TRUE_LIKE_VALUES


@functools.cache
def _settings() -> Settings:
    return load_settings().settings


conf: Final = Configuration()
get, getboolean, getfloat, getint, getlist = conf.get, conf.getboolean, conf.getfloat, conf.getint, conf.getlist
as_dict = conf.as_dict


def __getattr__(name: str) -> str:
    if name == "AIRFLOW_HOME":
        return os.environ.get("AIRFLOW_HOME") or str(_settings().core.home.absolute())
    if name == "DAGS_FOLDER":
        return str(_settings().core.dags_folder.absolute())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
