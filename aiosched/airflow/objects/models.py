"""Tables of Airflow's database: what a task can know about its DAG and its calls, and the names of the others.

Files import the others for queries on a session, which is refused with what to use instead
(`aiosched.airflow.objects.sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from aiosched.airflow.objects.named_classes import define
from aiosched.airflow.objects.sessions import is_test
from aiosched.authoring.runtime import context
from aiosched.authoring.runtime.context import running_context
from aiosched.authoring.runtime.xcoms import TaskXCom
from aiosched.errors import Refused
from aiosched.lazy import provided


class _Column:
    """A column of a table that does not exist here, or a condition on it: files name them at their top.

    A session refuses every query (`aiosched.airflow.objects.sessions`); the condition itself is neither true nor false.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., _Column]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: _Column(f"{self._name}.{name}(…)")

    def _compared(self, *_: object) -> _Column:
        return _Column(f"a condition on {self._name}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise Refused(f"{self._name} is a column of Airflow's database, and there is none here (docs/api.md).")

    __lt__ = __le__ = __gt__ = __ge__ = __invert__ = __or__ = __and__ = _compared
    __eq__ = __ne__ = _compared  # type: ignore[assignment] # as SQLAlchemy's
    __call__ = __bool__ = __iter__ = _refuse
    __hash__ = object.__hash__


class WithColumns(type):
    """The type of a table: its columns can be named, those that are properties of its objects, too."""

    def __getattribute__(cls, name: str) -> Any:
        value = super().__getattribute__(name)
        is_column = isinstance(value, property) or (
            name[:1].islower() and not callable(value)
        )  # not a method, a constant
        return WithColumns.__getattr__(cls, name) if is_column else value

    def __getattr__(cls, name: str) -> Any:
        if name == "__row_class__" and is_test():
            return provided("row_class")(cls.__name__)
        if name in {"__table__", "__tablename__"} and is_test():
            return getattr(cls.__row_class__, name)
        if name == "__clause_element__" and is_test():  # SQLAlchemy's name for what a class stands for in a query
            return cls.__row_class__.__mapper__.__clause_element__
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return getattr(cls.__row_class__, name) if is_test() else _Column(f"{cls.__name__}.{name}")

    def __dir__(cls) -> list[str]:
        """With the columns in a test: mocks may have these attributes."""
        return [*super().__dir__(), *(cls.__row_class__.__mapper__.all_orm_descriptors.keys() if is_test() else ())]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A row, in a test that gives its columns."""
        return cls.__row_class__(**kwargs) if kwargs and not args and is_test() else super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        is_row = type(instance).__name__ == cls.__name__ and hasattr(instance, "_sa_instance_state")
        return is_row or super().__instancecheck__(instance)


class _OfRuns(WithColumns):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, context.DagRun) or super().__instancecheck__(instance)


class DagRun(context.DagRun, metaclass=_OfRuns):
    """The run of a task, with the columns of Airflow's table. `dag_run` in a running task is an instance, too."""


class DagModel(metaclass=WithColumns):
    """The DAG of the running task, by its id and its file."""

    def __init__(self, dag: Any) -> None:
        self.dag_id: str = dag.dag_id
        self.fileloc: str = dag.fileloc
        self.description: str | None = dag.description
        self.owners: str = dag.owner
        self.tags: list[str] = list(dag.tags)

    @classmethod
    def get_dagmodel(cls, dag_id: str, session: object = None) -> DagModel | None:
        """The DAG of the running task. Raises Refused for another one."""
        running = running_context()
        dag = None if running is None else running.get("dag")
        if dag is None or dag.dag_id != dag_id:
            raise Refused(
                f"DagModel.get_dagmodel({dag_id!r}): a task can ask only about its own DAG. Ask the REST API about "
                f"others: GET /api/v1/dags/{dag_id}"
            )
        return cls(dag)

    get_current = get_dagmodel


class XCom(TaskXCom, metaclass=WithColumns):
    """Values that tasks passed on, with the columns of Airflow's table."""


class TaskReschedule(metaclass=WithColumns):
    """The first call of a try that was rescheduled since: sensors of Airflow 1.10 and 2 measure their time from it."""

    def __init__(self, ti: Any) -> None:
        self.dag_id: str = ti.dag_id
        self.task_id: str = ti.task_id
        self.run_id: str = ti.run_id
        self.map_index: int = ti.map_index
        self.try_number: int = ti.try_number
        self.start_date: datetime = ti.first_started

    @classmethod
    def find_for_task_instance(
        cls, task_instance: Any, session: object = None, try_number: int | None = None
    ) -> list[TaskReschedule]:
        """The first call of the running try, if this is a later one; of several calls before only the first is known.

        Raises Refused for another try.
        """
        if try_number not in (None, task_instance.try_number):
            raise Refused(f"TaskReschedule: only the running try, {task_instance.try_number}, is known to its task.")
        return [] if task_instance.first_started == task_instance.start_date else [cls(task_instance)]


class _Table(metaclass=WithColumns):
    """A table that does not exist here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise Refused(
            f"{type(self).__name__} is a table of Airflow's database, and there is none here: use the REST API or the "
            "client (docs/api.md)."
        )


class Log(_Table):
    """The audit log."""


class ParseImportError(_Table):
    """Import errors of files."""


ImportError = ParseImportError  # noqa: A001 - its name in 1.10 and 2


define(
    globals(),
    _Table,
    DagTag="Tags of DAGs.",
    SlaMiss="Missed SLAs.",
    TaskFail="Failed tries.",
    Pool="Pools; `aiosched pools` has them here.",
    DagCode="Sources of DAGs.",
    SerializedDagModel="Serialized DAGs.",
    RenderedTaskInstanceFields="Rendered templates.",
    Trigger="Triggers of deferred tasks.",
    DagPickle="Pickled DAGs of 1.10.",
    DagWarning="Warnings about DAGs.",
    DagBundleModel="Bundles of DAG files.",
    Job="Airflow's own processes.",
    DagVersion="Versions of DAGs.",
    TaskMap="What tasks are mapped over.",
    Backfill="Backfills.",
    AssetModel="Assets.",
    AssetEvent="Events of assets.",
    DatasetModel="Assets, as Airflow 2 calls them.",
    DatasetEvent="Events of assets, as Airflow 2 calls them.",
)
