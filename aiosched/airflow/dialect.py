"""Airflow's dialect: which files speak it, and of which generation they are.

A file speaks it if its source imports `airflow`. One that imports `airflow.sdk` can run in Airflow 3 only, so its DAGs
get Airflow 3's defaults; any other gets those of Airflow 2. An import of the SDK inside `try` does not decide if older
names are imported, too. Older names are a guess, as most of them work in Airflow 3, unless that has no such module. The
setting `core.airflow_defaults` overrides it.
Source: the semantics reference, section 38.2.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from aiosched.airflow import parameters
from aiosched.authoring.base import dialects
from aiosched.authoring.base.checks import warn_once
from aiosched.authoring.base.location import Location
from aiosched.authoring.base.settings import defaults

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

_IMPORTS: Final = re.compile(r"^[ \t]*(?:from|import)[ \t]+.*?\bairflow\b", re.MULTILINE)


_GONE: Final = re.compile(
    r"airflow\.(contrib|operators\.(\w+_operator|dummy|subdag)|hooks\.\w+_hook|sensors\.(?!time_sensor\b)\w+_sensor)\b"
)


@dataclass(frozen=True)
class AirflowDialect:
    """The dialect of a file; `generation` is 2 (also for 1.10) or 3, None for aiosched's own defaults.

    `is_guess`: its imports work in both.
    """

    generation: int | None
    is_guess: bool = False

    @property
    def name(self) -> str:
        """The version whose defaults apply; empty for aiosched's."""
        return "" if self.generation is None else f"Airflow {self.generation}"

    @property
    def catchup(self) -> bool | None:
        """True in Airflow 2, False in Airflow 3, unless `scheduler.catchup_by_default` is set."""
        if self.generation is None or defaults().catchup_is_set:
            return None
        return self.generation == 2

    @property
    def may_exit(self) -> bool:
        """In Airflow 2."""
        return self.generation == 2

    @property
    def runs_at_tick(self) -> bool:
        """Whether a cron string or a timedelta is a trigger timetable: in Airflow 3."""
        return self.generation == 3

    def of_dag(self, *, has_start: bool) -> AirflowDialect:
        """Its own; but what has no start date is no DAG of Airflow 2, which refuses it."""
        return DIALECTS[3] if self.is_guess and not has_start else self

    @cached_property
    def context(self) -> Mapping[str, Callable[[Context], Any]]:
        """`execution_date` and its family."""
        from aiosched.airflow.context import VALUES

        return VALUES

    def translated(self, kind: str, given: Mapping[str, Any], where: Location | None) -> dict[str, Any]:
        """The arguments for the class `kind`; see `parameters`."""
        arguments = parameters.translated(kind, given, where)
        if kind == "DagContents" and self.generation == 2 and "schedule" not in arguments:
            if arguments.get("start_date") or (arguments.get("default_args") or {}).get("start_date"):
                arguments["schedule"] = parameters.AIRFLOW_2_SCHEDULE
            else:
                warn_once("A DAG without schedule and start_date runs only when it is triggered.", where)
        return arguments

    def default_args(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The default arguments with the new names added."""
        return parameters.default_args(given)

    def finish(self, task: Any) -> None:
        """Give it the owner that Airflow gives; send mails about failures and retries, if the task has `email`."""
        if not task.owner and self.generation is not None:
            task.owner = "airflow"
        if task.email:
            from aiosched.airflow import mails

            mails.add(task)


DIALECTS: Final = {generation: AirflowDialect(generation) for generation in (None, 2, 3)}
_GUESS: Final = AirflowDialect(2, is_guess=True)


@dataclass(frozen=True, slots=True)
class Imports:
    """What a file imports, of interest here."""

    airflow: bool = False
    aiosched: bool = False
    sdk: bool = False  # outside of try
    sdk_in_try: bool = False
    older: bool = False  # anything of Airflow's core but the SDK
    gone: bool = False  # a module that Airflow 3 does not have, outside of try

    @property
    def generation(self) -> int | None:
        """The version of Airflow whose names these are; None for a file that also imports aiosched."""
        if self.aiosched:
            return None
        return 3 if self.sdk or (self.sdk_in_try and not self.older) else 2


def use() -> None:
    """Let objects that are built from now on ask for the dialect of the file that builds them."""
    dialects.use(dialect_of)


def dialect_of(frame: FrameType) -> AirflowDialect | None:
    """The dialect of the file to which `frame` belongs; None if it does not import `airflow`."""
    found = _imports_of(frame)
    if not found.airflow:
        return None
    setting = defaults().airflow_defaults
    if setting != "by file" and not found.aiosched:
        return DIALECTS[int(setting)]
    return _GUESS if found.generation == 2 and not found.gone else DIALECTS[found.generation]


def imports_of(source: str) -> Imports:
    """What the source text of a file imports."""
    if _IMPORTS.search(source) is None:
        return Imports()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # its own import reports it
        return Imports()
    found = list(_imported(tree, in_try=False))
    names = [name for name, _ in found]
    ours = [(name, in_try) for name, in_try in found if name == "airflow" or name.startswith("airflow.")]
    sdk = [in_try for name, in_try in ours if name == "airflow.sdk" or name.startswith("airflow.sdk.")]
    return Imports(
        airflow=bool(ours),
        aiosched=any(name == "aiosched" or name.startswith("aiosched.") for name in names),
        sdk=not all(sdk),
        sdk_in_try=any(sdk),
        older=any(not name.startswith(("airflow.sdk", "airflow.providers")) for name, _ in ours),
        gone=any(_GONE.match(name) and not in_try for name, in_try in ours),
    )


def _imported(node: ast.AST, *, in_try: bool) -> Iterator[tuple[str, bool]]:
    """The modules that the statements import, and whether each is inside `try`; not those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, in_try) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            if child.module is not None and not child.level:
                yield from ((f"{child.module}.{alias.name}", in_try) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (part for other in child.orelse for part in _imported(other, in_try=in_try))
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _imported(child, in_try=in_try or isinstance(child, ast.Try | ast.ExceptHandler))


def _imports_of(frame: FrameType) -> Imports:
    file = frame.f_code.co_filename
    lines = linecache.getlines(file, frame.f_globals)
    known = _known.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    found = imports_of("".join(lines)) if lines else _executed(frame)
    if lines:
        _known[file] = (lines, found)
    return found


def _executed(frame: FrameType) -> Imports:
    """What code without a source file imports, as far as its names tell."""
    names = frame.f_code.co_names
    found = [name for name in names if name == "airflow" or name.startswith("airflow.")]
    sdk = any(name.startswith("airflow.sdk") for name in found)
    return Imports(airflow=bool(found), aiosched="aiosched" in names, sdk=sdk)


_known: dict[str, tuple[list[str], Imports]] = {}  # by file: its lines when they were read, and what they import
