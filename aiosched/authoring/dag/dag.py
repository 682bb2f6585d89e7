"""`DAG`: the container of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.dag import serialize
from aiosched.authoring.dag.older_names import OlderNames
from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import zone
from aiosched.lazy import provided

if TYPE_CHECKING:
    from pendulum import FixedTimezone, Timezone


class DAG(OlderNames):
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

    def test_cycle(self) -> bool:
        """`check_cycle`, under the name that Airflow 1.10 has; it returns False, as there."""
        self.check_cycle()
        return False

    def validate(self) -> None:
        """Raise DagError (or a subclass) for a DAG that cannot run."""
        self.to_spec()

    def to_spec(self, *, now: datetime | None = None) -> DagSpec:
        """The DAG as the scheduler stores it. Raises DagError (or a subclass) for a DAG that cannot run.

        The runs of a custom timetable are listed as of `now`, by default the system clock.
        """
        return serialize.to_spec(self, now=now or SystemClock().now())

    @property
    def timezone(self) -> Timezone | FixedTimezone:
        """The time zone of `start_date`, else that of the installation: what `datetime.now()` takes, as in Airflow."""
        import pendulum  # takes 50 ms

        offset = zone(self.zone_name).utcoffset(None)  # None: it depends on the day
        return pendulum.timezone(int(offset.total_seconds()) if offset else self.zone_name)

    def test(
        self,
        logical_date: datetime | str | None = None,
        conf: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Run the DAG once in this process, without a database: `await dag.test()`.

        Pools and limits do not apply. The result has the state of every task. For a DAG of a file that imports
        `airflow`, whose method is a plain one, a caller outside an event loop gets the result itself, and the names of
        Airflow 2 (`execution_date`, `run_conf`) are taken.
        """
        is_plain = self.dialect is not None and self.dialect.name != ""
        if is_plain:
            logical_date = options.pop("execution_date", None) or logical_date
            conf = options.pop("run_conf", None) or conf
            options = {name: value for name, value in options.items() if name not in {"session", "use_executor"}}
        moment = optional_aware("logical_date", logical_date)
        running = provided("run_dag_test")(self, logical_date=moment, conf=conf, **options)
        return asyncio.run(running) if is_plain and not _is_on_a_loop() else running


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
