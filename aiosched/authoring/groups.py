"""Groups of tasks: a prefix for ids, default arguments, and one end of an arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiosched.authoring import building, checks
from aiosched.authoring.dependencies import Dependable
from aiosched.authoring.location import author_location
from aiosched.errors import DuplicateTaskError

if TYPE_CHECKING:
    from aiosched.authoring.base_operator import BaseOperator
    from aiosched.authoring.dag import DAG


class TaskGroup(Dependable, metaclass=checks.NamesItsParameters):
    """Tasks that belong together: `with TaskGroup("load"): ...`.

    Ids of tasks and groups inside get the group's id as prefix (`load.users`) unless `prefix_group_id` is
    false. `default_args` go over those of the enclosing group and DAG. As one end of an arrow a group stands
    for its first or its last tasks, teardowns apart, as they are when the arrow is drawn.
    """

    def __init__(
        self,
        group_id: str,
        prefix_group_id: bool = True,
        parent_group: TaskGroup | None = None,
        dag: DAG | None = None,
        default_args: Mapping[str, Any] | None = None,
        tooltip: str = "",
        add_suffix_on_collision: bool = False,
        group_display_name: str = "",
        **unknown: Any,
    ) -> None:
        where = author_location()
        for cosmetic in ("ui_color", "ui_fgcolor"):
            unknown.pop(cosmetic, None)
        checks.known_names_only(f"TaskGroup({group_id!r})", unknown,
