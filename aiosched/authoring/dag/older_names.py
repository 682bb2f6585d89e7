"""What DAGs of Airflow 1.10 and 2 have, under the names that they have there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiosched.authoring.base.building import is_at_work
from aiosched.authoring.dag import instants
from aiosched.authoring.dag.contents import DagContents
from aiosched.authoring.dag.custom_timetables import DagRunInfo
from aiosched.clock import SystemClock
from aiosched.core.timetables import DataInterval, Restriction, timed
from aiosched.errors import Refused

if TYPE_CHECKING:
    from aiosched.core.timetables.base import NextRun


class OlderNames(DagContents):
    """Base of DAGs."""

    is_subdag = False
    parent_dag = None
    allow_future_exec_dates = False

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
            last = DataInterval(_plain(last), _plain(after or last))
        limits = self._restriction() if restricted else Restriction(None, None, catchup=True)
        now = SystemClock().now()
        run = timed(self.timetable_at(now)).next_run(last=last, restriction=limits, now=now)
        return None if run is None else _info(run)

    def iter_dagrun_infos_between(
        self, earliest: datetime | None, latest: datetime, *, align: bool = True
    ) -> Iterator[DagRunInfo]:
        """The runs whose logical dates are in that span, both ends included; `earliest` by default the start date."""
        first = earliest or self.start_date
        limits = Restriction(None if first is None else _plain(first), _plain(latest), catchup=True)
        timetable, last = timed(self.timetable_at(latest)), None
        while (run := timetable.next_run(last=last, restriction=limits, now=_plain(latest))) is not None:
            yield _info(run)
            last = run.interval

    def sub_dag(self, *args: Any, **kwargs: Any) -> Self:
        """As `partial_subset`."""
        return self.partial_subset(*args, **kwargs)

    def clear(self, *args: Any, **kwargs: Any) -> int:
        """0 where no task runs: tests call it before `test()`, which keeps nothing. Raises Refused in a task."""
        if is_at_work():
            raise Refused(f"A task cannot clear others. Use the REST API, or `aiosched tasks clear {self.dag_id} …`.")
        return 0

    def cli(self) -> None:
        """Nothing: Airflow's files call it at their end, when Python runs them. Use `aiosched dags test`."""


def _plain(at: datetime) -> datetime:
    return datetime.fromtimestamp(at.timestamp(), UTC)


def _info(run: NextRun) -> DagRunInfo:
    return DagRunInfo(run.run_after, run.interval)
