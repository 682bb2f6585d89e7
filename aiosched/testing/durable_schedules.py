"""Schedules that are data in a `World`: those of `Scheduler`, on its clock (scheduler/requests/schedules.py)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from aiosched.core.requests.options import options_of, options_of_jobs
from aiosched.core.requests.requests import PauseSchedule, RemoveSchedule, ResumeSchedule, SetSchedule
from aiosched.db.statements.dag_schedules import Schedule, StoredSchedule, run_id_of, shown_schedule
from aiosched.errors import AioschedError
from aiosched.scheduler.loops.schedules import firing_of
from aiosched.scheduler.requests.schedules import set_terms, unknown
from aiosched.testing.answers import Respondents


class Schedules(Respondents):
    """The part of `World` with the schedules that are data."""

    _schedules: dict[tuple[str, str], StoredSchedule]
    _refusals: dict[tuple[str, str], str]  # why the last run of a schedule was refused

    @options_of_jobs(SetSchedule)
    def schedule(self, dag_id: str, request: SetSchedule) -> None:
        """Start runs of a DAG by a schedule that is data: one of `cron` (in `timezone`), `every` (seconds) and `at`.

        One of that name is changed; with other terms it begins anew. Raises Refused, NotFound, ParamError,
        TimetableError.
        """
        dag, place = self._dag(dag_id), (dag_id, request.name)
        conf = dict(request.conf)
        found = set_terms(request, dag.version.spec, self._schedules.get(place), conf, conf, self.now)
        self._schedules[place] = found
        self._refusals.pop(place, None)

    def schedules(self, dag_id: str | None = None) -> list[Schedule]:
        """The schedules of a DAG, or of all, by DAG and name."""
        return [self._shown(one) for place, one in sorted(self._schedules.items()) if dag_id in (None, place[0])]

    @options_of(PauseSchedule)
    def pause_schedule(self, dag_id: str, request: PauseSchedule) -> None:
        """Start no runs by a schedule. Raises NotFound."""
        self._replace(dag_id, request.name, is_paused=True)

    @options_of(ResumeSchedule)
    def resume_schedule(self, dag_id: str, request: ResumeSchedule) -> None:
        """Undo `pause_schedule`: the last missed instant has a run, with catchup each. Raises NotFound."""
        self._replace(dag_id, request.name, is_paused=False)

    @options_of(RemoveSchedule)
    def unschedule(self, dag_id: str, request: RemoveSchedule) -> None:
        """Remove a schedule; its runs stay. Raises NotFound."""
        del self._schedules[self._found(dag_id, request.name)]

    def _replace(self, dag_id: str, name: str, *, is_paused: bool) -> None:
        place = self._found(dag_id, name)
        self._schedules[place] = self._schedules[place]._replace(is_paused=is_paused)

    def _found(self, dag_id: str, name: str) -> tuple[str, str]:
        self._dag(dag_id)
        if (dag_id, name) not in self._schedules:
            raise unknown(dag_id, name)
        return dag_id, name

    def _shown(self, one: StoredSchedule) -> Schedule:
        state, place = None, (one.dag_id, one.name)
        if one.last_at is not None:
            key = self.rows.keys.get((one.dag_id, run_id_of(one.name, one.last_at)))
            state = "refused" if key is None else str(self.rows.runs[key].state)
        return shown_schedule(one, msgspec.json.decode(one.conf), state, self._refusals.get(place))

    def _next_scheduled(self) -> datetime | None:
        """When the next schedule starts a run."""
        return min((one.next_at for one in self._active() if one.next_at is not None), default=None)

    def _active(self) -> list[StoredSchedule]:
        rows = self.rows.dags
        return [one for one in self._schedules.values() if not (one.is_paused or rows[one.dag_id].is_paused)]

    def _fire(self, now: datetime) -> bool:
        """Start the runs that are due; returns whether there were any."""
        due = [one for one in self._active() if one.next_at is not None and one.next_at <= now]
        for one in sorted(due, key=lambda each: (each.next_at, each.dag_id, each.name)):
            place, firing = (one.dag_id, one.name), firing_of(one, now)
            last = firing.instants[-1] if firing.instants else one.last_at
            self._schedules[place] = one._replace(next_at=firing.next_at, last_at=last, error=firing.error)
            for instant in firing.instants:
                self._refusals.pop(place, None)
                try:
                    self.trigger(
                        one.dag_id, run_id=run_id_of(one.name, instant), run_after=instant,
                        conf=msgspec.json.decode(one.conf), triggered_by="schedule",
                    )  # fmt: skip
                except AioschedError as error:
                    self._refusals[place] = str(error)
        return bool(due)
