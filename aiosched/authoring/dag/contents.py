"""What a DAG consists of: its parameters, its timetable, its tasks and groups."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from aiosched.authoring.base import building, checks
from aiosched.authoring.base.dates import optional_aware, zone_name
from aiosched.authoring.base.dialects import Dialect, author_dialect
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.base.params import DagParam, ParamsDict
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.dag.custom_timetables import Timetable, list_runs
from aiosched.authoring.dag.deadlines import DeadlineAlert, deadlines_of
from aiosched.authoring.dag.traversal import Traversal
from aiosched.authoring.tasks.operator import BaseOperator, CallbackList, Callbacks, Seconds
from aiosched.core.access.dag_control import read_control
from aiosched.core.graph.spec import RunKeySpec
from aiosched.core.timetables import AnyTimetable, AssetOrTimeSchedule, Restriction, parse_schedule
from aiosched.errors import DuplicateTaskError, NotFound, TimetableError

if TYPE_CHECKING:
    from jinja2 import Undefined

    from aiosched.authoring.dag.groups import TaskGroup
    from aiosched.authoring.mapping.mapped import OperatorPartial
    from aiosched.authoring.runtime.templates import TemplateEngine


class DagContents(Traversal, metaclass=checks.NamesItsParameters):
    """A DAG's parameters, tasks and groups."""

    def __init__(
        self,
        dag_id: str,
        description: str | None = None,
        schedule: Any = None,
        start_date: datetime | str | None = None,
        end_date: datetime | str | None = None,
        *,
        catchup: bool | None = None,
        default_args: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Collection[str] | None = None,
        doc_md: str | None = None,
        max_active_runs: int | None = None,
        max_active_runs_per_key: int | None = None,
        concurrency_key: str | None = None,
        max_active_tasks: int | None = None,
        max_active_tasks_per_run: int | None = None,
        max_consecutive_failed_dag_runs: int | None = None,
        dagrun_timeout: Seconds | None = None,
        fail_fast: bool = False,
        deadline: DeadlineAlert | Sequence[DeadlineAlert] | None = None,
        on_success_callback: Callbacks = None,
        on_failure_callback: Callbacks = None,
        sla_miss_callback: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        is_paused_upon_creation: bool | None = None,
        allowed_run_types: Collection[str] | None = None,
        render_template_as_native_obj: bool = False,
        user_defined_macros: Mapping[str, Any] | None = None,
        user_defined_filters: Mapping[str, Any] | None = None,
        template_searchpath: str | Iterable[str] | None = None,
        template_undefined: type[Undefined] | None = None,
        jinja_environment_kwargs: Mapping[str, Any] | None = None,
        owner_links: Mapping[str, str] | None = None,
        access_control: Mapping[str, Any] | None = None,
        dag_display_name: str | None = None,
        auto_register: bool = True,
    ) -> None:
        where = self._origin = self._declared = author_location()  # `_declared`: of @dag its line
        self.number: int = next(_numbers)  # in the order of definition
        self.dag_id: str = checks.valid_key("dag_id", dag_id, where)
        self.fileloc: str = where.file if where else ""
        self.description = description
        self.default_args: dict[str, Any] = dict(default_args or {})
        given = {**(self.default_args.pop("params", None) or {}), **(params or {})}
        self.params: ParamsDict = ParamsDict(given, owner=f"DAG {self.dag_id!r}")
        start_date = start_date or self.default_args.get("start_date")
        self.start_date: datetime | None = optional_aware("start_date", start_date, where)
        dialect = author_dialect()
        if dialect is not None:
            dialect = dialect.of_dag(has_start=self.start_date is not None)
        self.dialect: Dialect | None = dialect
        end_date = end_date or self.default_args.get("end_date")
        self.end_date: datetime | None = optional_aware("end_date", end_date, where)
        self.zone_name: str = zone_name(self.start_date, where) if self.start_date else defaults().timezone
        self.schedule = schedule
        self.timetable: AnyTimetable = self._timetable(where)
        self.catchup_is_guess = False
        if catchup is None and dialect is not None:
            catchup = dialect.catchup
            self.catchup_is_guess = bool(catchup) and dialect.is_guess
        self.catchup: bool = defaults().catchup if catchup is None else catchup
        self.tags: list[str] = _tags(tags, where)
        self.doc_md = doc_md
        self.max_active_runs: int = self._run_limit(max_active_runs, where)
        self.run_key: RunKeySpec | None = _run_key(concurrency_key, max_active_runs_per_key, where)
        limit = defaults().max_active_tasks if max_active_tasks is None else max_active_tasks
        self.max_active_tasks: int = checks.whole_number("max_active_tasks", limit, least=0, where=where)
        self.max_active_tasks_per_run: int | None = checks.optional_number(
            "max_active_tasks_per_run", max_active_tasks_per_run, least=0, where=where
        )
        if max_consecutive_failed_dag_runs is None:
            max_consecutive_failed_dag_runs = defaults().max_consecutive_failed_dag_runs
        self.max_consecutive_failed_dag_runs: int = checks.whole_number(
            "max_consecutive_failed_dag_runs", max_consecutive_failed_dag_runs, least=0, where=where
        )
        self.dagrun_timeout: timedelta | None = checks.optional_duration("dagrun_timeout", dagrun_timeout, where)
        self.fail_fast = fail_fast
        self.deadlines: list[DeadlineAlert] = deadlines_of(deadline, where)
        self.on_success_callback: CallbackList = checks.callbacks("on_success_callback", on_success_callback, where)
        self.on_failure_callback: CallbackList = checks.callbacks("on_failure_callback", on_failure_callback, where)
        self.sla_miss_callback: CallbackList = checks.callbacks("sla_miss_callback", sla_miss_callback, where)
        self.is_paused_upon_creation = is_paused_upon_creation
        self.allowed_run_types: tuple[str, ...] | None = checks.run_types("allowed_run_types", allowed_run_types, where)
        self.render_template_as_native_obj = render_template_as_native_obj
        self.user_defined_macros: dict[str, Any] = dict(user_defined_macros or {})
        self.user_defined_filters: dict[str, Any] = dict(user_defined_filters or {})
        self.template_searchpath: list[str] = (
            [template_searchpath] if isinstance(template_searchpath, str) else list(template_searchpath or ())
        )
        self.template_undefined = template_undefined
        self.jinja_environment_kwargs: dict[str, Any] = dict(jinja_environment_kwargs or {})
        self.owner_links: dict[str, str] = dict(owner_links or {})
        self.access_control: dict[str, str] = _control(access_control, where)
        self.dag_display_name: str = dag_display_name or dag_id
        self.auto_register = auto_register
        self.is_part = False  # its tasks have become those of another DAG

        self.task_dict: dict[str, BaseOperator] = {}
        self.task_groups: dict[str, TaskGroup] = {}
        self.edge_labels: dict[str, str] = {}
        self.partials: list[OperatorPartial] = []  # of mapped tasks, expanded or not
        self.task_functions: list[Any] = []  # TaskFunctions that were defined in its body
        self.outputs_in_texts: dict[str, str] = {}  # template that stands for an output -> its task
        self._suffixes: dict[str, int] = {}
        self._source_hash: str | None = None  # of the code that it was imported from, if known
        self._attempt_plans: dict[BaseOperator, Any] = {}  # what executors have computed about its tasks

    def _timetable(self, where: Location | None) -> AnyTimetable:
        try:
            return parse_schedule(
                self.schedule,
                timezone=self.zone_name,
                start_date=self.start_date,
                at_tick=self.dialect is not None and self.dialect.runs_at_tick,
            )
        except TimetableError as error:
            wrong = checks.fail(f"DAG {self.dag_id!r}: {error}", where, kind=TimetableError)
            wrong.argument = "schedule"
            raise wrong from None

    @property
    def lists_runs(self) -> bool:
        """Whether the schedule is a custom timetable, whose list of runs must be extended from time to time."""
        return self._own_timetable is not None

    @property
    def _own_timetable(self) -> Timetable | None:
        inner = self.schedule.timetable if isinstance(self.schedule, AssetOrTimeSchedule) else self.schedule
        return inner if isinstance(inner, Timetable) else None

    def timetable_at(self, now: datetime) -> AnyTimetable:
        """The timetable for the scheduler; a custom one with its list of runs as of `now`.

        Raises TimetableError when a custom timetable raises, goes backwards or has too many runs.
        """
        inner = self._own_timetable
        if inner is None:
            return self.timetable
        try:
            listed = list_runs(inner, self._restriction(), now)
        except TimetableError as error:
            raise checks.fail(f"DAG {self.dag_id!r}: {error}", self._origin, kind=TimetableError) from error
        if isinstance(self.timetable, AssetOrTimeSchedule):
            return AssetOrTimeSchedule(listed, self.timetable.assets)
        return listed

    def _restriction(self) -> Restriction:
        """The dates that limit the schedule. Source: the semantics reference, section 11.1."""
        tasks = self.task_dict.values()
        starts = [start for start in (self.start_date, *(task.start_date for task in tasks)) if start is not None]
        ends = [task.end_date for task in tasks if task.end_date is not None]
        latest = self.end_date
        if ends and len(ends) == len(tasks):
            latest = max(ends if latest is None else [*ends, latest])
        return Restriction(min(starts, default=None), latest, self.catchup)

    def _run_limit(self, wanted: int | None, where: Location | None) -> int:
        most = self.timetable.active_runs_limit
        if wanted is None:
            return defaults().max_active_runs if most is None else min(most, defaults().max_active_runs)
        checks.whole_number("max_active_runs", wanted, least=0, where=where)
        if most is not None and wanted > most:
            raise checks.fail(
                f"DAG {self.dag_id!r}: the schedule {self.timetable.summary} allows {most} active run at a time, "
                f"not max_active_runs={wanted}. Leave max_active_runs out, or set it to {most}.",
                where,
            )
        return wanted

    # Building

    def __enter__(self) -> Self:
        building.open_dag(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        building.close_dag()

    def add_task(self, task: BaseOperator) -> None:
        """Add `task`; raises DuplicateTaskError if its id is taken."""
        known = self.task_dict.get(task.task_id)
        if known is task:
            return
        if known is not None or task.task_id in self.task_groups:
            first = f", first at {known._origin.file}:{known._origin.line}" if known and known._origin else ""
            raise checks.fail(
                f"The DAG {self.dag_id!r} has a task or group {task.task_id!r} already{first}. Choose another task_id.",
                task._origin,
                kind=DuplicateTaskError,
            )
        self.task_dict[task.task_id] = task
        task.dag = self

    def add_tasks(self, tasks: Iterable[BaseOperator]) -> None:
        """Add all of `tasks`."""
        for task in tasks:
            self.add_task(task)

    def free_id(self, wanted: str) -> str:
        """`wanted` if no task or group has that id, else the first free one of `wanted__1`, `wanted__2`, …"""
        candidate = wanted
        while candidate in self.task_dict or candidate in self.task_groups:
            self._suffixes[wanted] = number = self._suffixes.get(wanted, 0) + 1
            candidate = f"{wanted}__{number}"
        return candidate

    # Reading

    def task(self, task_id: str) -> BaseOperator:
        """The task with that id; raises NotFound with a suggestion."""
        try:
            return self.task_dict[task_id]
        except KeyError:
            hint = checks.suggestion(task_id, self.task_dict) if self.task_dict else "It has no tasks."
            raise NotFound(f"The DAG {self.dag_id!r} has no task {task_id!r}. {hint}") from None

    get_task = task

    def has_task(self, task_id: str) -> bool:
        """Whether there is a task with that id."""
        return task_id in self.task_dict

    def param(self, name: str) -> DagParam:
        """The param `name` as an argument of tasks."""
        if name not in self.params:
            raise checks.fail(f"The DAG {self.dag_id!r} has no param {name!r}. {checks.suggestion(name, self.params)}")
        return DagParam(name)

    @property
    def tasks(self) -> list[BaseOperator]:
        """All tasks in the order of definition."""
        return list(self.task_dict.values())

    @property
    def task_ids(self) -> list[str]:
        """The ids of all tasks in the order of definition."""
        return list(self.task_dict)

    @property
    def roots(self) -> list[BaseOperator]:
        """The tasks without upstream tasks."""
        return [task for task in self.task_dict.values() if not task.upstream_task_ids]

    @property
    def leaves(self) -> list[BaseOperator]:
        """The tasks without downstream tasks."""
        return [task for task in self.task_dict.values() if not task.downstream_task_ids]

    @property
    def folder(self) -> str:
        """The folder of the DAG's file: template files are found relative to it."""
        return str(Path(self.fileloc).parent)

    @property
    def owner(self) -> str:
        """The owners of the tasks, sorted and joined by commas."""
        return ", ".join(sorted({task.owner for task in self.task_dict.values() if task.owner}))

    @cached_property
    def templates(self) -> TemplateEngine:
        """Renders the templates of this DAG's tasks."""
        from aiosched.authoring.runtime.templates import TemplateEngine

        return TemplateEngine.of(self)

    def __repr__(self) -> str:
        return f"<DAG {self.dag_id}>"


_EXAMPLE: Final = '"{{ conf.tenant }}"'
_KEY_OF_CONF: Final = re.compile(r"\{\{\s*(?:dag_run\.)?conf((?:\.\w+)+)\s*\}\}")


def _run_key(key: str | None, most: int | None, where: Location | None) -> RunKeySpec | None:
    """How many runs may be active that have the same value in their conf."""
    if key is None:
        if most is not None:
            raise checks.fail(f"max_active_runs_per_key needs a concurrency_key, such as {_EXAMPLE}.", where)
        return None
    if not isinstance(key, str) or not (found := _KEY_OF_CONF.fullmatch(key)):
        raise checks.fail(
            f"concurrency_key={key!r} is wrong: name a value of the run's conf, such as {_EXAMPLE}. The scheduler runs "
            "no templates, so nothing else of them works here.",
            where,
        )
    limit = 1 if most is None else checks.whole_number("max_active_runs_per_key", most, least=1, where=where)
    return RunKeySpec(tuple(found[1].split(".")[1:]), limit)


def _tags(tags: Collection[str] | None, where: Location | None) -> list[str]:
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags or ()):
        raise checks.fail(f"tags={tags!r} is wrong: give a list of strings.", where)
    return sorted(set(tags or ()))


def _control(control: Mapping[str, Any] | None, where: Location | None) -> dict[str, str]:
    try:
        return read_control(control or {})
    except ValueError as error:
        raise checks.fail(f"access_control: {error}.", where) from None


_numbers = itertools.count()
