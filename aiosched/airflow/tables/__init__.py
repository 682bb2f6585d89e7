"""Which module of Airflow has which names, and where each is at home.

`here.tsv` has the names that aiosched answers itself; `moved.tsv` those of older Airflow that a provider package has
today, which must be installed. `reexported.tsv` has what modules of Airflow have from one another, as `Context` in
`airflow.models.taskinstance`. `tools/airflow_names.py` makes it of Airflow's wheels, and it is read when a name is in
no other table. `providers.txt` lists the provider packages of Airflow's project, without `apache-airflow-providers-`.
`settings.tsv` has the defaults of Airflow's settings (`tools/airflow_settings.py`). `removed.tsv` has the public names
that provider packages had once, with their successors; it is read when a module of a provider package is imported.
`absent.tsv` says of Airflow's own modules what to do about the names that nothing answers, or that these are private.

A row is a module of Airflow, a name in it, and its home: `module:attribute` (also `module:task.branch`), or a module
alone. The name `*` stands for all public names of its home. Rows are sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent  # importlib.resources would take longer than the tables
FILES: Final = ("here.tsv", "moved.tsv")
REEXPORTED: Final = "reexported.tsv"
PROVIDERS: Final = "providers.txt"
SETTINGS: Final = "settings.tsv"
SETTING_COLUMNS: Final = ["section", "option", "default"]
COLUMNS: Final = ["module", "name", "home"]
REMOVED: Final = "removed.tsv"
NONE: Final = "none"  # a home of `removed.tsv`
SAME: Final = "same"  # parameters of `removed.tsv`
DIFFERENT: Final = "different"
REMOVED_COLUMNS: Final = [*COLUMNS, "parameters", "last"]


@dataclass(frozen=True, slots=True)
class Removed:
    """A name that newer versions of a provider package do not have any more."""

    home: str  # of the successor, as in the other tables; empty: there is none
    parameters: Mapping[str, str]  # of the successor, by the names that differ; `a.b` is the entry `b` of a dict `a`
    is_same_use: bool  # the successor does the same with these parameters
    last: str  # the newest version of the package that has it


def read(folder: Path, files: Iterable[str] = FILES) -> dict[str, dict[str, str]]:
    """Each module's names, and the home of each name. Raises ValueError that names the file and the line."""
    modules: dict[str, dict[str, str]] = {}
    for path in (folder / file for file in files):
        for number, (module, name, home) in _rows(path, COLUMNS):
            names = modules.setdefault(module, {})
            if name in names:
                raise ValueError(f"{path}, line {number}: {name} of {module} has a row already. Delete one of them.")
            names[name] = home
    return modules


def _rows(path: Path, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        cells = line.split("\t")
        if len(cells) != len(columns) or not all(cells) or (number == 1) != (cells == columns):
            wanted = "the first line is" if number == 1 else "a row has"
            raise ValueError(f"{path}, line {number}: {line!r}: {wanted} {', '.join(columns)}, with tabs between.")
        if number > 1:
            yield number, cells


MODULES: Final = read(FOLDER)


@cache
def reexported() -> Mapping[str, Mapping[str, str]]:
    """The names of `reexported.tsv` by module, none of which `MODULES` has."""
    return read(FOLDER, [REEXPORTED])


ABSENT: Final = "absent.tsv"
PRIVATE: Final = "private"  # a remedy of `absent.tsv`


@cache
def absent() -> Mapping[str, str]:
    """What to do about names that nothing answers, by the module or the name, dotted."""
    return {place: remedy for _, (place, remedy) in _rows(FOLDER / ABSENT, ["place", "remedy"])}


@cache
def providers() -> frozenset[str]:
    """The provider packages of Airflow's project that have been released, by the end of their names."""
    return frozenset((FOLDER / PROVIDERS).read_text(encoding="utf-8").split())


@cache
def settings() -> Mapping[tuple[str, str], str]:
    """The defaults of Airflow's settings of all generations, by section and option."""
    lines = (FOLDER / SETTINGS).read_text(encoding="utf-8").splitlines()[1:]
    return {(section, option): default for section, option, default in (line.split("\t") for line in lines)}


@cache
def removed() -> Mapping[str, Mapping[str, Removed]]:
    """The names of `removed.tsv` by module."""
    modules: dict[str, dict[str, Removed]] = {}
    for _, (module, name, home, parameters, last) in _rows(FOLDER / REMOVED, REMOVED_COLUMNS):
        is_same_use = parameters != DIFFERENT
        pairs = {} if parameters in (DIFFERENT, SAME) else dict(pair.split("=") for pair in parameters.split())
        modules.setdefault(module, {})[name] = Removed("" if home == NONE else home, pairs, is_same_use, last)
    return modules
