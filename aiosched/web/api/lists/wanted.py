"""The filters of lists of runs and of task instances, as parameters of a query, and the values that they can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, NamedTuple

from fastapi import Depends, Query
from pydantic import StringConstraints

from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.db.lists.chosen import WantedRuns
from aiosched.db.lists.facets import Facets
from aiosched.db.lists.instance_lists import WantedInstances
from aiosched.db.lists.of_dags import OfDags, Without
from aiosched.web.api.base.models import FilterDayOrInstant, Resource

Word = Annotated[str, StringConstraints(max_length=250, pattern=r"^[^\x00]*$")]
Words = Annotated[list[Word] | None, Query(max_length=100)]  # one of them, or, if the name begins with "not_", none
_Word = Annotated[Word | None, Query()]
_Pair = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00=]+=[^\x00]*$")]
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


async def _of_dags(
    dag_id: Annotated[list[Word] | None, Query(max_length=1000, description="one of these DAGs")] = None,
    owner: Annotated[Words, Query(description="of the DAG, one of these")] = None,
    team: Annotated[Words, Query(description="of the DAG, one of these")] = None,
    tag: Annotated[Words, Query(description="of the DAG; all must match")] = None,
) -> OfDags:
    return OfDags(dag_ids=dag_id or None, owners=owner or (), teams=team or (), tags=tag or ())


async def _without_dags(
    not_dag_id: Words = None, not_owner: Words = None, not_team: Words = None, not_tag: Words = None
) -> Without:
    return Without(dag_ids=not_dag_id or (), owners=not_owner or (), teams=not_team or (), tags=not_tag or ())


TheDags = Annotated[OfDags, Depends(_of_dags)]
WithoutDags = Annotated[Without, Depends(_without_dags)]


async def _runs(
    dags: TheDags,
    without: WithoutDags,
    run_type: Annotated[list[RunType] | None, Query(max_length=10)] = None,
    not_run_type: Annotated[list[RunType] | None, Query(max_length=10)] = None,
    search: Annotated[_Word, Query(description="part of the run id")] = None,
    since: Annotated[FilterDayOrInstant | None, Query(description="run_after not before")] = None,
    until: Annotated[FilterDayOrInstant | None, Query(description="run_after before, or on that day")] = None,
    logical_since: Annotated[FilterDayOrInstant | None, Query(description="logical date not before")] = None,
    logical_until: Annotated[
        FilterDayOrInstant | None, Query(description="logical date before, or on that day")
    ] = None,
    version: Annotated[int | None, Query(ge=1, lt=2**31, description="of the DAG")] = None,
    asset: Annotated[_Word, Query(description="that the run updated, or that triggered it")] = None,
    conf: Annotated[
        list[_Pair] | None, Query(max_length=10, description="KEY=VALUE in the conf of the run; dots: keys in keys")
    ] = None,
) -> WantedRuns:
    return WantedRuns(
        dags=dags,
        run_types=tuple(map(str, run_type or ())),
        search=search or None,
        since=since,
        until=until,
        logical_since=logical_since,
        logical_until=logical_until,
        version=version,
        asset=asset,
        conf=[(key, value) for key, _, value in (each.partition("=") for each in conf or ())],
        without=replace(without, run_types=tuple(map(str, not_run_type or ()))),
    )


async def _listed_runs(
    runs: Annotated[WantedRuns, Depends(_runs)],
    state: Annotated[list[RunState] | None, Query(max_length=10)] = None,
    not_state: Annotated[list[RunState] | None, Query(max_length=10)] = None,
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
        without=replace(runs.without, states=tuple(map(str, not_state or ()))),
    )


async def _listed_instances(
    runs: Annotated[WantedRuns, Depends(_runs)],
    state: Annotated[list[TaskState] | None, Query(max_length=20)] = None,
    not_state: Annotated[list[TaskState] | None, Query(max_length=20)] = None,
    task_id: Annotated[_Word, Query(description="part of the task id")] = None,
    operator: Words = None,
    not_operator: Words = None,
    pool: Words = None,
    not_pool: Words = None,
    min_seconds: Annotated[_Seconds, Query(description="shortest duration, of running ones until now")] = None,
    max_seconds: Annotated[_Seconds, Query(description="longest duration, of running ones until now")] = None,
    reason: Annotated[
        _Word, Query(description="part of the error, or of why it waits or was skipped; small or capital letters")
    ] = None,
) -> WantedInstances:
    return WantedInstances(
        runs,
        tuple(state or ()),
        task_id or None,
        operators=operator or (),
        pools=pool or (),
        min_seconds=min_seconds,
        max_seconds=max_seconds,
        reason=reason or None,
        without=Without(states=tuple(map(str, not_state or ())), operators=not_operator or (), pools=not_pool or ()),
    )


TheRuns = Annotated[WantedRuns, Depends(_listed_runs)]
TheInstances = Annotated[WantedInstances, Depends(_listed_instances)]


class After(NamedTuple):
    """The entry of a list after which it goes on: a run, or a task instance of it."""

    dag_id: str
    run_id: str
    task_id: str = ""
    map_index: int = -1


_AFTER = Query(description="the list goes on after this entry; instead of a cursor")


async def _after(
    after_dag_id: Annotated[Word | None, _AFTER] = None,
    after_run_id: Annotated[Word | None, _AFTER] = None,
    after_task_id: Annotated[Word, _AFTER] = "",
    after_map_index: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
) -> After | None:
    if after_dag_id is None or after_run_id is None:
        return None
    return After(after_dag_id, after_run_id, after_task_id, after_map_index)


TheAfter = Annotated[After | None, Depends(_after)]
