"""`DAG`: the container of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiosched.authoring.base.building import is_at_work
from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.base.plain_callers import is_on_loop
from aiosched.authoring.dag import instants, serialize
from aiosched.authoring.dag.contents import DagContents
from aiosched.authoring.dag.custom_timetables import DagRunInfo
from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import DataInterval, Restriction, timed, zone
from aiosched.core.values.commands import command_line
from aiosched.core.values.instants import plain_utc
from aiosched.errors import Refused
from aiosched.lazy import provided

if TYPE_CHECKING:
    from pendulum import FixedTimezone, Timezone

    from aiosched.core.timetables.base import NextRun


class DAG(DagContents):
    """Tasks and their order, with a schedule: `with DAG("sales", schedule="@daily", start_date=…): ...`.

    Parameters mean what they mean in Airflow; `default_args` apply to every task. `max_active_tasks` limits the tasks
    of all runs together, `max_active_tasks_per_run` those of each run, and `max_active_runs_per_key` (by default 1) the
    runs that have the same value of `concurrency_key` (`"{{ conf.tenant }}"`). The default of `catchup` is the setting
    `scheduler.catchup_by_default` (false). `allowed_run_types` are some of `scheduled`, `manual`, `backfill` and
    `asset_triggered`; by default all. Dates may be datetimes or ISO strings; the time zone of the schedule is that of
    `start_date`.
    """

    is_subdag = False
    parent_dag = None
    allow_future_exec_dates = False

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
        return asyncio.run(running) if is_plain and not is_on_loop() else running

    # -- what DAGs of Airflow 1.10 and 2 have, under the names that they have there --

    @property
    def schedule_interval(self) -> Any:
        """The schedule as it was given, under the name that Airflow 1.10 and 2 have."""
        return self.schedule

    normalized_schedule_interval = schedule_interval

    @property
    def concurrency(self) -> int:
        """`max_active_tasks`, under the name that Airflow 1.10 has."""
        return self.max_active_tasks

    @property
    def subdags(self) -> list[Any]:
        """None: a SubDagOperator is a group of tasks here."""
        return []

    @property
    def full_filepath(self) -> str:
        """The path of its file."""
        return self.fileloc

    @property
    def relative_fileloc(self) -> Path:
        """The path of its file below the working directory or the DAGs folder; else as it is."""
        path = Path(self.fileloc)
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path

    @property
    def safe_dag_id(self) -> str:
        """The id, for names without dots."""
        return self.dag_id.replace(".", "__dot__")

    def following_schedule(self, dttm: datetime) -> datetime | None:
        """The first logical date after an aware instant."""
        return instants.following(self.timetable_at(dttm), dttm)

    def previous_schedule(self, dttm: datetime) -> datetime | None:
        """The last logical date before an aware instant."""
        return instants.previous(self.timetable_at(dttm), dttm)

    def next_dagrun_info(
        self, last_automated_dagrun: datetime | DataInterval | None = None, *, restricted: bool = True
    ) -> DagRunInfo | None:
        """The run after the one with that logical date (aware) or data interval, None if there is none.

        Without one, the first run. `restricted`: only between the dates of the DAG, and by its `catchup`.
        """
        last = last_automated_dagrun
        if isinstance(last, datetime):
            after = self.following_schedule(last)
            last = DataInterval(plain_utc(last), plain_utc(after or last))
        limits = self._restriction() if restricted else Restriction(None, None, catchup=True)
        now = SystemClock().now()
        run = timed(self.timetable_at(now)).next_run(last=last, restriction=limits, now=now)
        return None if run is None else _info(run)

    def iter_dagrun_infos_between(
        self, earliest: datetime | None, latest: datetime, *, align: bool = True
    ) -> Iterator[DagRunInfo]:
        """The runs whose logical dates are in that span, both ends included; `earliest` by default the start date."""
        first = earliest or self.start_date
        limits = Restriction(None if first is None else plain_utc(first), plain_utc(latest), catchup=True)
        timetable, last = timed(self.timetable_at(latest)), None
        while (run := timetable.next_run(last=last, restriction=limits, now=plain_utc(latest))) is not None:
            yield _info(run)
            last = run.interval

    def sub_dag(self, *args: Any, **kwargs: Any) -> Self:
        """As `partial_subset`."""
        return self.partial_subset(*args, **kwargs)

    def clear(self, *args: Any, **kwargs: Any) -> int:
        """0 where no task runs: tests call it before `test()`, which keeps nothing. Raises Refused in a task."""
        if is_at_work():
            command = command_line("tasks clear", self.dag_id)
            raise Refused(f"A task cannot clear others. Use the REST API, or `{command} …`.")
        return 0

    def sync_to_db(self, *_: Any, **__: Any) -> None:
        """Nothing: parsing stores DAGs. Tests of Airflow projects call it before `create_dagrun`."""

    def create_dagrun(self, state: str = "queued", *_: Any, **given: Any) -> Any:
        """A run for a test of an Airflow project, with the arguments that Airflow has: its task instances can `run()`.

        Raises Refused in a task.
        """
        if is_at_work():
            raise Refused("A task cannot make runs here: use TriggerDagRunOperator.")
        return provided("create_dagrun")(self, state, **given)

    def cli(self) -> None:
        """Nothing: Airflow's files call it at their end, when Python runs them. Use `aiosched dags test`."""


def _info(run: NextRun) -> DagRunInfo:
    return DagRunInfo(run.run_after, run.interval)
