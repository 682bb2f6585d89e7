"""Where settings come from: `load_settings` merges them with the precedence flag, environment, file, default.

The file is `aiosched.toml` in the working directory, or `[tool.aiosched]` of its `pyproject.toml`; folders above are
not searched, so that paths are always relative to the directory where the command is run. Source: docs/settings.md,
"Settings reference".
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from aiosched.config.alerts import shown_notifiers, shown_rules
from aiosched.config.bundles import shown_bundles
from aiosched.config.project import is_folder
from aiosched.config.secrecy import Secrecy, hide_password, secrecy_of
from aiosched.config.secret_backends import shown_backends
from aiosched.config.sections import Settings
from aiosched.errors import ConfigError, did_you_mean

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
        "scheduler.processes": "--schedulers",
        "scheduler.grace": "--grace",
        "logs.level": "--log-level",
        "web.host": "--host",
        "web.port": "--port",
    }
)
_BUNDLES: Final = "dags.bundles"
_ALERT_RULES: Final = "alerts.rules"
_DAGS_FOLDER: Final = "core.dags_folder"
_AIRFLOWS_HOME: Final = "AIRFLOW_HOME"
_OF_AIRFLOW: Final = MappingProxyType(  # variables that count if no source sets the setting
    {
        "AIRFLOW__CORE__DAGS_FOLDER": _DAGS_FOLDER,
        "AIRFLOW__CORE__PLUGINS_FOLDER": "core.plugins_folder",
        "AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": "core.dag_ignore_file_syntax",
        _AIRFLOWS_HOME: "core.project_folder",
    }
)

_LONG_PREFIX: Final = "AIOSCHED__"
_SHORT_PREFIX: Final = "AIOSCHED_"
FROM_FILE: Final = "__FILE"
_NOT_SETTINGS: Final = ("AIOSCHED_VAR_", "AIOSCHED_CONN_")  # variables and connections of DAGs
_OF_KUBERNETES: Final = re.compile(r"_(SERVICE|PORT)(_|$)")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value: the flag, the variable or the file that has it (None for a default)."""

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
        """Every key with its value, in the order of the sections; secrets are masked."""
        return {key: shown(key, getattr(getattr(self.settings, s), name)) for key, s, name, _ in setting_fields()}


class SettingField(NamedTuple):
    """One setting: its key such as `core.parallelism`, its section, its name in the section, and pydantic's field."""

    key: str
    section: str
    name: str
    info: FieldInfo


def setting_fields() -> Iterator[SettingField]:
    """All settings, in the order of the sections."""
    for section, info in Settings.model_fields.items():
        model = info.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        for name, field in model.model_fields.items():
            yield SettingField(f"{section}.{name}", section, name, field)


def variable_of(key: str) -> str:
    """The environment variable of a setting: `AIOSCHED__CORE__HOME` of `core.home`."""
    return f"{_LONG_PREFIX}{key.replace('.', '__')}".upper()


def load_settings(
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """Read all sources. `overrides` are flags, by key (`{"database.dsn": …}`); None means not given.

    `environ` and `folder` default to those of the process. An empty variable counts as unset. Airflow's variables for
    what is read count if no source sets it. Raises ConfigError with the name of the file or variable for an
    unknown key (with the nearest known one), for an invalid value, and for a key that is set twice in the same kind of
    source.
    """
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if folder is None else folder
    found: dict[str, tuple[Any, Origin]] = {}
    found.update(_from_file(folder))
    found.update(_from_environment(environ))
    for key, value in _from_airflow(environ, folder).items():
        if key not in found and (key != _DAGS_FOLDER or _BUNDLES not in found):
            found[key] = value
    for key, value in (overrides or {}).items():
        if value is not None:
            found[key] = value, Origin("flag", FLAGS.get(key, "an argument"))
            if key == _DAGS_FOLDER:  # this folder instead of the bundles
                found.pop(_BUNDLES, None)
    origins = {field.key: Origin("default") for field in setting_fields()}
    origins.update({key: origin for key, (_, origin) in found.items()})
    return Loaded(_build(found), MappingProxyType(origins))


def _from_airflow(environ: Mapping[str, str], folder: Path) -> dict[str, tuple[Any, Origin]]:
    """What Airflow's variables say. Its home has the DAGs folder, if there is none in `folder`."""
    found: dict[str, tuple[Any, Origin]] = {}
    home = environ.get(_AIRFLOWS_HOME)
    if home and is_folder(dags := Path(home, "dags")) and not is_folder(folder / "dags"):
        found[_DAGS_FOLDER] = dags, Origin("environment", _AIRFLOWS_HOME)
    for variable, key in _OF_AIRFLOW.items():
        if environ.get(variable):
            found[key] = environ[variable], Origin("environment", variable)
    return found


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
    keys = {variable_of(field.key): field.key for field in setting_fields()} | dict(SHORT_NAMES)
    found: dict[str, tuple[Any, Origin]] = {}
    for variable in sorted(environ):
        plain = variable.removesuffix(FROM_FILE)
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
    """A name that begins with a section is ours; of the others, only one that resembles a name of ours is refused.

    Others can use the prefix, too: Kubernetes sets AIOSCHED_PORT for a service named aiosched.
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
    """The variable that was meant by one with a single underscore after the prefix, None if it is not ours."""
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
    """`value` as shown to people: paths as text, passwords in addresses and keys masked."""
    if key == _BUNDLES:
        return _without_passwords(shown_bundles(value))
    secrecy = _secrecies().get(key)
    if secrecy is Secrecy.BACKENDS:
        return shown_backends(value)
    if secrecy is Secrecy.NOTIFIERS:
        return shown_notifiers(value)
    if key == _ALERT_RULES:
        return shown_rules(value)
    if secrecy is not None and value is not None:
        return hide_password(str(value)) if secrecy is Secrecy.ADDRESS else "***"
    return str(value) if isinstance(value, Path) else value


@cache
def _secrecies() -> Mapping[str, Secrecy | None]:
    return {field.key: secrecy_of(field.info) for field in setting_fields()}


def _without_passwords(value: Any) -> Any:
    """A value of `dags.bundles`, perhaps a wrong one, without the passwords of its addresses."""
    match value:
        case str():
            return hide_password(value)
        case list():
            return [_without_passwords(one) for one in value]
        case dict():
            return {name: _without_passwords(one) for name, one in value.items()}
    return value
