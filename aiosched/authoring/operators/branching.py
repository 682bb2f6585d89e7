"""Branches by date and time, and the base class of branches.

Source: the semantics reference, sections 7.2 and 7.3.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.operators.python import decide_branch
from aiosched.authoring.operators.weekdays import WeekDay, week_days, zone_of
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.clock import Clock, SystemClock
from aiosched.core.timetables import DataInterval, Restriction
from aiosched.core.values.messages import SkipDecision

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag
    from aiosched.authoring.runtime.context import Context

Followed = str | Collection[str] | None


class BaseBranchOperator(BaseOperator):
    """Follows the tasks that `choose_branch(context)` names, and skips the other direct downstream tasks.

    It returns the id of a task or task group, several of them, or None; it may be a coroutine function.
    """

    can_skip_downstream: ClassVar[bool] = True
    clock: ClassVar[Clock] = SystemClock()

    def choose_branch(self, context: Context) -> Any:
        """The id or ids to follow."""
        raise NotImplementedError(f"{type(self).__name__} has no choose_branch(self, context): implement it.")

    @property
    def is_async(self) -> bool:
        """Whether `choose_branch` is a coroutine function."""
        return inspect.iscoroutinefunction(self.choose_branch)

    def execute(self, context: Context) -> Any:
        """Set `ti.skip_decision`; a coroutine when `is_async`."""
        chosen = self.choose_branch(context)
        return self._decide_later(chosen, context) if self.is_async else decide_branch(self, chosen, context)

    async def _decide_later(self, chosen: Awaitable[Followed], context: Context) -> Any:
        return decide_branch(self, await chosen, context)

    def _now(self, context: Context, *, logical: bool) -> datetime:
        """The logical date if `logical` and there is one, else the time now; in the DAG's time zone."""
        moment = context.run.logical_date if logical else None
        return (moment or self.clock.now()).astimezone(zone_of(self))


class BranchDayOfWeekOperator(BaseBranchOperator):
    """Follows one branch on the days `week_day` ("Monday", WeekDay.MONDAY, or a set of those), another on other days.

    The day is today's in the DAG's time zone, or with `use_task_logical_date` that of the logical date.
    """

    def __init__(
        self,
        *,
        follow_task_ids_if_true: str | Collection[str],
        follow_task_ids_if_false: str | Collection[str],
        week_day: str | WeekDay | Collection[str | WeekDay],
        use_task_logical_date: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.follow_task_ids_if_true = follow_task_ids_if_true
        self.follow_task_ids_if_false = follow_task_ids_if_false
        self.week_day = week_day
        self.days: frozenset[int] = week_days(week_day, self)
        self.use_task_logical_date = use_task_logical_date

    def choose_branch(self, context: Context) -> Followed:
        """The branch for the day."""
        is_day = self._now(context, logical=self.use_task_logical_date).isoweekday() in self.days
        return self.follow_task_ids_if_true if is_day else self.follow_task_ids_if_false


class BranchDateTimeOperator(BaseBranchOperator):
    """Follows one branch from `target_lower` to `target_upper`, both inclusive, another outside.

    The limits are datetimes (naive ones in the DAG's time zone) or times of day in that zone; None means no limit.
    A lower time of day after the upper one means past midnight. The time compared is now, or with
    `use_task_logical_date` the logical date.
    """

    def __init__(
        self,
        *,
        follow_task_ids_if_true: str | Collection[str],
        follow_task_ids_if_false: str | Collection[str],
        target_lower: datetime | time | None,
        target_upper: datetime | time | None,
        use_task_logical_date: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if target_lower is None and target_upper is None:
            raise self.fail(f"Task {self.task_id!r}: give target_lower, target_upper or both.")
        self.target_lower: datetime | time | None = target_lower
        self.target_upper: datetime | time | None = target_upper
        self.follow_task_ids_if_true = follow_task_ids_if_true
        self.follow_task_ids_if_false = follow_task_ids_if_false
        self.use_task_logical_date = use_task_logical_date

    def choose_branch(self, context: Context) -> Followed:
        """The branch for the moment."""
        now = self._now(context, logical=self.use_task_logical_date)
        return self.follow_task_ids_if_true if self._is_inside(now) else self.follow_task_ids_if_false

    def _is_inside(self, now: datetime) -> bool:
        lower, upper = self._at(self.target_lower, now), self._at(self.target_upper, now)
        after, before = lower is None or now >= lower, upper is None or now <= upper
        return (after or before) if self._over_midnight else (after and before)

    @property
    def _over_midnight(self) -> bool:
        lower, upper = self.target_lower, self.target_upper
        return isinstance(lower, time) and isinstance(upper, time) and lower > upper

    def _at(self, edge: datetime | time | None, now: datetime) -> datetime | None:
        if edge is None:
            return None
        if isinstance(edge, datetime):
            return edge if edge.tzinfo is not None else edge.replace(tzinfo=zone_of(self))
        return datetime.combine(now.date(), edge.replace(tzinfo=None), zone_of(self))


class LatestOnlyOperator(BaseOperator):
    """Skips its direct downstream tasks unless its run is the latest one of the schedule.

    A run is the latest if now is after the end of its interval and not after that of the next one. Manual runs,
    runs triggered by assets, and runs whose interval has no length never skip.
    """

    can_skip_downstream: ClassVar[bool] = True
    clock: ClassVar[Clock] = SystemClock()
    ui_color = "#e9ffdb"

    def execute(self, context: Context) -> None:
        """Set `ti.skip_decision` if tasks are to be skipped."""
        dag: Dag | None = context["dag"]
        if dag is None or self._is_latest(context, dag):
            return
        skipped = [task_id for task_id in sorted(self.downstream_task_ids) if not dag.task(task_id).is_teardown]
        self.log.info("not the latest run: %s are skipped", ", ".join(skipped) or "no tasks")
        context["ti"].skip_decision = SkipDecision(skipped=tuple(skipped))

    def _is_latest(self, context: Context, dag: Dag) -> bool:
        run = context.run
        start, end = run.interval_start, run.interval_end
        if run.run_type == "manual" or start is None or end is None or start == end:
            return True
        now = self.clock.now()
        restriction = Restriction(None, None, catchup=True)
        following = dag.timetable_at(now).next_run(last=DataInterval(start, end), restriction=restriction, now=now)
        return end < now and (following is None or now <= following.interval.end)
