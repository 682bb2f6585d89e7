"""Files that are written for another system: who translates their parameters, defaults and names of the context.

Whoever answers the imports of such files calls `use`. Before that nothing is asked, and every file is one of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Protocol

from aiosched.authoring.base.location import Location, author_frame


class Dialect(Protocol):
    """How the objects of one file are built."""

    @property
    def name(self) -> str:
        """Whose defaults its DAGs have, for people; empty for ours."""
        ...

    @property
    def catchup(self) -> bool | None:
        """Its default of `catchup`; None for ours."""
        ...

    @property
    def is_guess(self) -> bool:
        """Whether another version of the same system could be meant."""
        ...

    def of_dag(self, *, has_start: bool) -> Dialect:
        """The dialect of a DAG of the file, which has a start date or none."""
        ...

    @property
    def may_exit(self) -> bool:
        """Whether a task that calls `sys.exit()`, or with 0, succeeds."""
        ...

    @property
    def runs_at_tick(self) -> bool:
        """Whether a cron string or a timedelta makes runs at the tick, without data intervals."""
        ...

    @property
    def context(self) -> Mapping[str, Callable[[Any], Any]]:
        """More names of the context, and how they are computed."""
        ...

    def translated(self, kind: str, given: Mapping[str, Any], where: Location | None) -> dict[str, Any]:
        """The arguments for our class `kind`. Raises DagError for one that would change results."""
        ...

    def default_args(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Default arguments of tasks, those with old names under their new ones as well."""
        ...

    def finish(self, task: Any) -> None:
        """Called when a task has been built."""
        ...


def use(find: Callable[[FrameType], Dialect | None]) -> None:
    """Let `find` tell the dialect of the file that a frame belongs to; None for one of ours."""
    global _find
    _find = find


def author_dialect() -> Dialect | None:
    """The dialect of the file that calls aiosched; None for ours."""
    if _find is None:
        return None
    frame = author_frame()
    return None if frame is None else _find(frame)


def translated(cls: type, given: Mapping[str, Any], where: Location | None = None) -> dict[str, Any]:
    """The arguments of a call of `cls`, translated for it and its bases if the author's file has a dialect."""
    dialect, arguments = author_dialect(), dict(given)
    if dialect is not None:
        for kind in cls.__mro__:
            if kind.__module__.startswith("aiosched."):
                arguments = dialect.translated(kind.__name__, arguments, where)
    return arguments


_find: Callable[[FrameType], Dialect | None] | None = None
