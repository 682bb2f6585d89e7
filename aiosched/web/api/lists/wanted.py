"""The filters of lists of runs and of task instances, as parameters of a query, and the values that they can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query

from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.lists.chosen import WantedRuns
from aiosched.db.lists.facets import Facets
from aiosched.db.lists.instance_lists import WantedInstances
from aiosched.web.api.base.models import FilterDayOrInstant, Resource

_Word = Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")]
_Tag = Annotated[str, Query(max_length=250, pattern=r"^[^\x00]*$")]
_Seconds = Annotated[float | None, Query(ge=0, le=1e9)]


class FacetValue(Resource):
    """How many entries of a list have a value of a filter; null: those without one."""

    facet: str
    value: str | None
    number: int


class FacetList(Resource):
    """The values of each filter that occur in a list, the most frequent first, at most 50 for each.

    Entries are counted that all filters let through; for `state` those in any state. `complete` is false if only the
    first entries of the list were counted.
    """

    counts: list[FacetValue]
    complete: bool

    @classmethod
    def of(cls, found: Facets) -> FacetList:
        """The model of what was counted."""
        return cls.model_validate(found)


async def _runs(
    dag_id: _Word = None,
    run_type: Annotated[list[RunType] | None, Query(max_length=10)] = None,
    search: Annotated[_Word, Query(description="part of the run id")] = None,
    since: Annotated[FilterDayOrInstant | None, Query(description="run_after not before")] = None,
    until: Annotated[FilterDayOrInstant | None, Query(description="run_after before, or on that day")] = None,
    owner: Annotated[_Word, Query(description="of the DAG")] = None,
    tag: Annotated[list[_Tag] | None, Query(max_length=20, description="of the DAG; all must match")] = None,
) -> WantedRuns:
    return WantedRuns(
        dag_id=dag_id,
        run_types=tuple(map(str, run_type or ())),
        search=search or None,
        since=since,
        until=until,
        owner=owner,
        tags=tuple(tag or ()),
    )


async def _listed_runs(
    runs: Annotated[WantedRuns, Depends(_runs)],
    state: Annotated[list[RunState] | None, Query(max_length=10)] = None,
    ended_since: Annotated[FilterDayOrInstant | None, Query(description="ended not before")] = None,
    ended_until: Annotated[FilterDayOrInstant | None, Query(description="ended before, or on that day")] = None,
    min_seconds: Annotated[_Seconds, Query(description="shortest duration, of running ones until now")] = None,
    max_seconds: Annotated[_Seconds, Query(description="longest duration, of running ones until now")] = None,
    reason: Annotated[_Word, Query(description="why the run failed")] = None,
) -> WantedRuns:
    return replace(
        runs,
        states=tuple(map(str, state or ())),
        ended_since=ended_since,
        ended_until=ended_until,
        min_seconds=min_seconds,
        max_seconds=max_seconds,
        reason=reason,
    )


async def _listed_instances(
    runs: Annotated[WantedRuns, Depends(_runs)],
    state: Annotated[list[TaskState] | None, Query(max_length=20)] = None,
    task_id: Annotated[_Word, Query(description="part of the task id")] = None,
    operator: _Word = None,
    pool: _Word = None,
    min_seconds: Annotated[_Seconds, Query(description="shortest duration, of running ones until now")] = None,
    max_seconds: Annotated[_Seconds, Query(description="longest duration, of running ones until now")] = None,
    reason: Annotated[
        _Word, Query(description="part of the error, or of why it waits or was skipped; small or capital letters")
    ] = None,
) -> WantedInstances:
    return WantedInstances(
        runs, tuple(state or ()), task_id or None, operator, pool, min_seconds, max_seconds, reason or None
    )


TheRuns = Annotated[WantedRuns, Depends(_listed_runs)]
TheInstances = Annotated[WantedInstances, Depends(_listed_instances)]
