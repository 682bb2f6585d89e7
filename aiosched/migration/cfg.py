"""`airflow.cfg`, and the environment variables `AIRFLOW__SECTION__OPTION`, as settings of aiosched.

Does not live here: which setting becomes what (cfg_table.py).
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from aiosched.config import Settings
from aiosched.config.project import folders_above, is_folder
from aiosched.errors import ConfigError
from aiosched.migration.cfg_table import OLD_NAMES, OPTIONS, SECTIONS, SWITCHES, TRUE, OurSetting
from aiosched.migration.missing import told_by

_PREFIX: Final = "AIRFLOW__"
_VARIABLE: Final = re.compile(r"\bAIRFLOW__[A-Z0-9]+(?:_[A-Z0-9]+)*__[A-Z0-9_]+")
_FILES: Final = (".env*", "*.env", "Dockerfile*", "docker-compose*.y*ml", "compose*.y*ml", "*entrypoint*.sh")


_FOLDERS: Final = ("core.plugins_folder", "logs.folder")


class SettingFate(StrEnum):
    """What becomes of a setting of Airflow."""

    SET = "set"
    DEFAULT = "default"  # it has a place here, and the value is the default
    NOT_NEEDED = "not needed"
    INVALID = "invalid"  # it has a place here, and the value is not possible
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CfgLine:
    """One setting of Airflow: its value, and its place here or the reason why there is none. Secrets are left out."""

    section: str
    option: str
    fate: SettingFate
    key: str | None = None
    value: Any = None
    note: str | None = None


def read_cfg(path: Path, environ: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The settings of the file, overridden by the environment. Raises ConfigError if the file cannot be read."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise ConfigError(f"{path} cannot be read: {reason}.") from None
    found = {(section, name): value or "" for section in parser.sections() for name, value in parser.items(section)}
    return found | from_environment(environ)


def from_environment(environ: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The settings of Airflow in the environment."""
    found = {}
    for name, value in environ.items():
        section, separator, option = name.removeprefix(_PREFIX).partition("__")
        if name.startswith(_PREFIX) and separator:
            found[section.lower(), option.lower()] = value
    return found


def given_in_files(dags_folder: Path, cfg: Mapping[tuple[str, str], str]) -> dict[str, list[str]]:
    """The variables `AIRFLOW__…` that matter here and are only in files of the project, as of Docker, by the file."""
    found: dict[str, list[str]] = {}
    for folder in (dags_folder.absolute(), *folders_above(dags_folder)):
        for file in (file for pattern in _FILES for file in sorted(folder.glob(pattern)) if file.is_file()):
            named = from_environment(dict.fromkeys(_VARIABLE.findall(told_by(file)), "true"))
            lines = translate({place: value for place, value in named.items() if place not in cfg})
            if names := [_PREFIX + f"{one.section}__{one.option}".upper() for one in lines if _matters(one)]:
                found.setdefault(file.name, names)
    return found


def _matters(line: CfgLine) -> bool:
    """Whether Airflow's setting has a place here."""
    return line.key is not None or line.option.endswith("_data_intervals")


def translate(cfg: Mapping[tuple[str, str], str]) -> list[CfgLine]:
    """Every setting of `cfg`, in the order of sections and options."""
    lines = []
    for (section, option), value in sorted(cfg.items()):
        place = OLD_NAMES.get((section, option), (section, option))
        lines.append(_line(section, option, _entry(place, cfg), value.strip()))
    return lines


def _entry(place: tuple[str, str], cfg: Mapping[tuple[str, str], str]) -> OurSetting | str | None:
    if place not in SWITCHES:
        return OPTIONS.get(place, SECTIONS.get(place[0]))
    switch = SWITCHES[place]
    on = [value for given, value in cfg.items() if OLD_NAMES.get(given, given) == switch]
    return OPTIONS[place] if on and on[0].strip().lower() in TRUE else f"[{switch[0]}] {switch[1]} is off"


def on_this_machine(lines: Iterable[CfgLine], dags_folder: Path) -> list[CfgLine]:
    """The lines with the DAGs folder that was given, and without other folders that only Airflow's machine has."""
    found = []
    for line in lines:
        if line.key == "core.dags_folder" and line.fate is SettingFate.SET:
            found.append(replace(line, value=str(dags_folder), note=f"{line.value} in Airflow"))
        elif line.key in _FOLDERS and line.fate is SettingFate.SET and not is_folder(Path(line.value)):
            note = f"there is no folder {line.value} here"
            found.append(CfgLine(line.section, line.option, SettingFate.NOT_NEEDED, note=note))
        else:
            found.append(line)
    return found


def _line(section: str, option: str, entry: OurSetting | str | None, value: str) -> CfgLine:
    if entry is None:
        return CfgLine(
            section, option, SettingFate.UNKNOWN, note="no setting of a released Airflow's core, or of a plugin"
        )
    if isinstance(entry, str):
        return CfgLine(section, option, SettingFate.NOT_NEEDED, note=entry)
    if value == "":
        return CfgLine(section, option, SettingFate.DEFAULT, entry.key, note=entry.note)
    part, name = entry.key.split(".")
    try:
        checked = Settings.model_validate({part: {name: entry.convert(value)}})
    except (ValidationError, ValueError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        problem = problem.removeprefix("Value error, ")
        return CfgLine(section, option, SettingFate.INVALID, entry.key, value, f"{entry.key}: {problem}")
    found, default = (getattr(getattr(one, part), name) for one in (checked, Settings()))
    fate = SettingFate.DEFAULT if found == default and not entry.always else SettingFate.SET
    return CfgLine(section, option, fate, entry.key, str(found) if isinstance(found, Path) else found, entry.note)


def as_toml(lines: list[CfgLine]) -> str:
    """The settings that are not the default, as an `aiosched.toml`."""
    sections: dict[str, list[str]] = {}
    for line in lines:
        if line.fate is SettingFate.SET and line.key is not None:
            section, name = line.key.split(".")
            note = f"  # {line.note}" if line.note else ""
            sections.setdefault(section, []).append(f"{name} = {_toml(line.value)}{note}")
    return "\n\n".join("\n".join([f"[{section}]", *found]) for section, found in sections.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def fernet_keys(cfg: Mapping[tuple[str, str], str]) -> list[str]:
    """Airflow's Fernet keys, if its configuration has them."""
    key = cfg.get(("core", "fernet_key"), "").strip()
    return [key] if key else []


def metadata_url(cfg: Mapping[tuple[str, str], str]) -> str | None:
    """The address of the metadata database."""
    for section in ("database", "core"):
        if url := cfg.get((section, "sql_alchemy_conn"), "").strip():
            return url
    return None
