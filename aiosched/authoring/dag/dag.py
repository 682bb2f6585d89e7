"""`DAG`: the container of tasks."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any

from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.dag import instants, serialize
from aiosched.authoring.dag.contents import DagContents
from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec
from aiosched.lazy import provided


class DAG(DagContents):
    """Tasks and their order, with a schedule: `with DAG("sales", schedule="@daily", start_date=…): ...`.

    Parameters mean what they mean in Airflow; `default_args` apply to every task. `max_active_tasks` limits the tasks
    of all runs together, `max_active_tasks_per_run` those of each run, and `max_active_runs_per_key` (by default 1) the
    runs that have the same value of `concurrency_key` (`"{{ conf.tenant }}"`). The default of `catchup` is the setting
    `scheduler.catchup_by_default` (false). `allowed_run_types` are some of `scheduled`, `manual`, `backfill` and
    `asset_triggered`; by default all. Dates may be datetimes or ISO strings; the time zone of the schedule is that of
    `start_date`.
    """

    def check_cycle(self) -> None:
        """Raise DagCycleError naming the tasks of a cycle, if there is one."""
        serialize.check_cycle(self)

    def validate(self) -> None:
        """Raise DagError (or a subclass) for a DAG that cannot run."""
        self.to_spec()

    def to_spec(self, *, now: datetime | None = None) -> DagSpec:
        """The DAG as the scheduler stores it. Raises DagError (or a subclass) for a DAG that cannot run.

        The runs of a custom timetable are listed as of `now`, by default the system clock.
        """
        return serialize.to_spec(self, now=now or SystemClock().now())

    @property
    def schedule_interval(self) -> Any:
        """The schedule as it was given, under the name that Airflow 1.10 and 2 have."""
        return self.schedule

    @property
    def concurrency(self) -> int:
        """`max_active_tasks`, under the name that Airflow 1.10 has."""
        return self.max_active_tasks

    def following_schedule(self, dttm: datetime) -> datetime | None:
        """The first logical date after an aware instant."""
        return instants.following(self.timetable_at(dttm), dttm)

    def previous_schedule(self, dttm: datetime) -> datetime | None:
        """The last logical date before an aware instant."""
        return instants.previous(self.timetable_at(dttm), dttm)

    def cli(self) -> None:
        """Nothing: Airflow's files call it at their end, when Python runs them. Use `aiosched dags test`."""

    def test(
        self,
        logical_date: datetime | str | None = None,
        conf: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run the DAG once in this process, without a database: `await dag.test()`.

        Pools and limits do not apply. The result has the state of every task.
        """
        run_dag_test = provided("run_dag_test")
        moment = optional_aware("logical_date", logical_date)
        result: Coroutine[Any, Any, Any] = run_dag_test(self, logical_date=moment, conf=conf, **options)
        return result
