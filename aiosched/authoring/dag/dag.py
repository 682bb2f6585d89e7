"""`DAG`: the container that authors write tasks into."""

from __future__ import annotations

import importlib
from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any

from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.dag import serialize
from aiosched.authoring.dag.definition import DagDefinition
from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec


class DAG(DagDefinition):
    """Tasks and their order, with a schedule: `with DAG("sales", schedule="@daily", start_date=…): ...`.

    Parameters mean what they mean in Airflow; `default_args` reach every task. `max_active_tasks` counts
    the tasks of all runs together, `max_active_tasks_per_run` those of each run. `catchup` is false unless
    said, here or in `scheduler.catchup_by_default`. `allowed_run_types` names the kinds of runs that the DAG
    takes, of `scheduled`, `manual`, `backfill` and `asset_triggered`; without it all. Dates may be datetimes or
    ISO strings; the schedule's time zone is that of `start_date`.
    """

    def check_cycle(self) -> None:
        """Raise DagCycleError naming the tasks of a cycle, if there is one."""
        serialize.check_cycle(self)

    def to_spec(self, *, now: datetime | None = None) -> DagSpec:
        """The DAG as the scheduler stores it. Raises DagError (or a kind of it) for one that cannot run.

        A timetable of the author's own lists its runs as of `now`, by default the system's clock.
        """
        return serialize.to_spec(self, now=now or SystemClock().now())

    def test(
        self,
        logical_date: datetime | str | None = None,
        conf: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run the DAG once in this process, without a database: `await dag.test()`.

        Pools and limits do not apply. The result says what became of every task.
        """
        runner = importlib.import_module("aiosched.executors.dag_test.dag_test")
        moment = optional_aware("logical_date", logical_date)
        result: Coroutine[Any, Any, Any] = runner.run_dag_test(self, logical_date=moment, conf=conf, **options)
        return result
