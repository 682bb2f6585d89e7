"""The services of tasks about XComs, besides those of the own run: of other runs and DAGs, and large ones."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from aiosched.core.values.messages import FoundXComs, XComPairs, XComSearch
from aiosched.core.values.run_folders import is_in_run
from aiosched.core.values.secret_names import Reader
from aiosched.db.access.owners import owner_of_dag, reader_of_run
from aiosched.db.queries import task_services
from aiosched.db.queries.task_services import AskedRun
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.db.upkeep import remote_xcoms
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.services.service_calls import ServiceCall

logger: Final = logging.getLogger(__name__)


async def find_xcoms(db: Database, call: ServiceCall) -> FoundXComs:
    """XComs of other runs of the DAG, and of other DAGs: see XComSearch. Raises Refused for a DAG of another team.

    The run that asks says whose they may be, not the call. What belongs to a DAG without a team is for all.
    """
    search = msgspec.convert(call.args, XComSearch)
    nothing = FoundXComs(pairs=[[] for _ in search.refs])
    async with db.acquire() as conn:
        asking = await task_services.run_by_key(conn, call.run)
        if asking is None:
            return nothing
        dag_id = search.dag_id or asking.dag_id
        if dag_id != asking.dag_id:
            try:
                _check(dag_id, await owner_of_dag(conn, dag_id), asking, await reader_of_run(conn, asking.key))
            except NotFound as error:
                return msgspec.structs.replace(nothing, hint=f"{error} Nothing is found.")
        named, hint = await _named_run(conn, search, dag_id, asking)
        since = named or (asking if search.run_id is None else None)
        until = (since.logical_date or since.run_after) if search.earlier and since is not None else None
        run_id = None if named is None else named.run_id
        places = await runs.runs_with_xcoms(conn, dag_id, search.refs, run_id=run_id, until=until)
        return FoundXComs(pairs=await _read(conn, search, places), hint=hint)


async def _named_run(
    conn: DatabaseConnection, search: XComSearch, dag_id: str, asking: AskedRun
) -> tuple[AskedRun | None, str | None]:
    """The run that is meant, which comes first, and what to say if there is none."""
    if dag_id == asking.dag_id and search.run_id is None:
        return asking, None
    if search.run_id is None and search.earlier:
        return None, None
    run_id = search.run_id or asking.run_id
    if found := await task_services.find_runs(conn, dag_id, run_ids=[run_id]):
        return found[0], None
    instead = (
        "if it is a run of another DAG, give dag_id, too."
        if search.dag_id is None
        else "give the run_id of one of its runs, or none and include_prior_dates=True, for its newest value."
    )
    return None, f"The DAG {dag_id!r} has no run {run_id!r}, so nothing is found: {instead}"


def _check(dag_id: str, owner: str | None, asking: AskedRun, reader: Reader) -> None:
    if reader.is_denied(owner):
        whose = "belongs to no team" if reader.team is None else f"belongs to the team {reader.team!r}"
        logger.warning(
            "refused: a task of %s %s asked for XComs of the DAG %r of the team %r, and %s",
            asking.dag_id, asking.run_id, dag_id, owner, whose,
        )  # fmt: skip
        raise Refused(
            f"XComs of the DAG {dag_id!r} are for DAGs of its team {owner!r}; {asking.dag_id!r}, which asks, {whose}. "
            f"Let {dag_id!r} hand the value on, in the conf of a run that it triggers or as a variable that belongs to "
            "no team; or put both files into folders of one team (`aiosched teams list`)."
        )


async def _read(conn: DatabaseConnection, search: XComSearch, places: list[tuple[int, int] | None]) -> list[XComPairs]:
    """The values at (run key, task index), within the limit of one answer. Raises Refused beyond it."""
    answer: list[XComPairs] = [[] for _ in places]
    left = runs.MOST_PULLED
    for run in dict.fromkeys(place[0] for place in places if place is not None):
        there = [(at, place[1]) for at, place in enumerate(places) if place is not None and place[0] == run]
        refs = [(task_index, search.refs[at]) for at, task_index in there]
        for (at, _), pairs in zip(there, await runs.get_xcoms(conn, run, refs, left), strict=True):
            answer[at] = fitting(pairs)
            left -= sum(len(text) for _, text in answer[at] if isinstance(text, str))
    return answer


def fitting(pairs: XComPairs | None) -> XComPairs:
    """The values of a reference. Raises Refused if there are too many for one answer."""
    if pairs is None:
        raise Refused(
            f"The XComs that are pulled at once have more than {runs.MOST_PULLED // 2**20} MiB. Pull fewer at a time "
            "(map_indexes=[...]), or push where values are stored instead of the values."
        )
    return pairs


async def reserve_xcoms(db: Database, call: ServiceCall) -> None:
    """Enter the files that an attempt writes: {paths, task_index, map_index, try_number}.

    They are of its run: what is entered is removed once the attempt is over and has not reported it.
    """
    args = call.args
    paths = [str(path) for path in args["paths"]]
    key = (call.run, int(args["task_index"]), int(args["map_index"]), int(args["try_number"]))
    async with db.acquire() as conn:
        asking = await task_services.run_by_key(conn, call.run)
        if asking is None:
            raise NotFound("The run that asks is not there any more: nothing can be stored for it.")
        foreign = next((path for path in paths if not is_in_run(path, asking.dag_id, asking.run_id)), None)
        if foreign is not None:
            logger.warning("refused: a task of %s %s asked for the file %.300r", asking.dag_id, asking.run_id, foreign)
            raise Refused(f"The file {foreign!r:.300} is not of the run {asking.run_id!r} of {asking.dag_id!r}.")
        await remote_xcoms.reserve(conn, paths, key)
