"""What lower files know of tasks, groups and DAGs, whose classes are defined above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from aiosched.authoring.base.dialects import Dialect
from aiosched.authoring.base.location import Location
from aiosched.core.graph.spec import MappingSpec
from aiosched.core.timetables import AnyTimetable
from aiosched.errors import DagError


class MapInputs(Protocol):
    """What a task or group is mapped over."""

    @property
    def values(self) -> Sequence[Any]: ...
    @property
    def sources(self) -> Sequence[Any]: ...  # XComArgs
    @property
    def producers(self) -> frozenset[str]: ...
    @property
    def is_from_tasks(self) -> bool: ...
    def length(self, context: Any) -> int: ...
    def shown(self) -> dict[str, Any]: ...
    def spec(self) -> MappingSpec: ...


class Task(Protocol):
    """A `BaseOperator`."""

    task_id: str
    upstream_task_ids: set[str]
    downstream_task_ids: set[str]
    is_setup: bool
    is_teardown: bool
    pool: str
    pool_slots: int
    priority_weight: int
    executor_config: dict[str, Any]
    task_display_name: str
    _origin: Location | None

    @property
    def dag(self) -> Dag | None: ...
    @property
    def task_group(self) -> Group | None: ...
    @property
    def expand_input(self) -> MapInputs | None: ...
    @property
    def upstream_list(self) -> Sequence[Task]: ...
    @property
    def downstream_list(self) -> Sequence[Task]: ...
    @property
    def template_fields(self) -> Sequence[str]: ...
    @property
    def template_ext(self) -> Sequence[str]: ...
    @property
    def keeps_state(self) -> bool: ...
    @property
    def renders_itself(self) -> bool: ...
    def resolve_template_files(self) -> None: ...
    def render_template_fields(self, context: Any) -> None: ...
    @property
    def map_index_template(self) -> str | None: ...
    def as_setup(self) -> Any: ...
    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...
    def fail(self, message: str) -> DagError: ...


class Group(Protocol):
    """A `TaskGroup`."""

    group_id: str
    label: str
    dag: Dag

    @property
    def parent_group(self) -> Group | None: ...
    @property
    def prefix(self) -> str: ...
    @property
    def children(self) -> dict[str, Any]: ...  # tasks and groups
    @property
    def effective_default_args(self) -> Mapping[str, Any]: ...
    @property
    def expand_input(self) -> MapInputs | None: ...
    @property
    def first_tasks(self) -> Sequence[Task]: ...
    def child_id(self, label: str) -> str: ...


class Dag(Protocol):
    """A `DAG`."""

    dag_id: str
    zone_name: str
    default_args: dict[str, Any]
    edge_labels: dict[str, str]
    auto_register: bool
    dialect: Dialect | None

    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def task_dict(self) -> dict[str, Any]: ...  # of BaseOperators
    @property
    def task_groups(self) -> dict[str, Any]: ...  # of TaskGroups
    @property
    def partials(self) -> list[Any]: ...  # of OperatorPartials
    @property
    def task_functions(self) -> list[Any]: ...  # TaskFunctions that were defined in its body
    @property
    def outputs_in_texts(self) -> dict[str, str]: ...
    @property
    def templates(self) -> Any: ...  # a TemplateEngine
    def add_task(self, task: Any) -> None: ...
    def task(self, task_id: str) -> Any: ...
    def has_task(self, task_id: str) -> bool: ...
    def free_id(self, wanted: str) -> str: ...
    def timetable_at(self, now: datetime) -> AnyTimetable: ...
