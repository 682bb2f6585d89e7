"""Lists of runs: a page of them, how many there are, and how many have each value of a filter. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import func, select, true

from aiosched.db.access.visibility import Seen
from aiosched.db.lists.chosen import RunKey, RunOrder, WantedRuns, chosen_runs, is_in_state, ordered, resolved
from aiosched.db.lists.facets import Facets, counted, most_frequent, read_facets, size_of
from aiosched.db.queries.queries import RUN_COLUMNS, RunRow, fetch, find_run
from aiosched.db.schema.schema import dag, dag_run
from aiosched.db.server.engine import Database

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
MOST_COUNTED: Final = 25_000  # then it is "at least"
MOST_SAMPLED: Final = 3_000  # runs of which the values are counted, the first of the list


# Indexes: ix_dag_run_run_after_id, with a DAG ix_dag_run_dag_id_run_after_id; by the end ix_dag_run_end_date_id; of the
# unfinished and of the failed ones their own.
async def page_of_runs(
    db: Database,
    wanted: WantedRuns,
    *,
    order: RunOrder = "-run_after",
    after: RunKey | None = None,
    limit: int = 25,
    seen: Seen = None,
) -> list[RunRow]:
    """Runs in that order, after the one with the key `after`; only of DAGs that are `seen`."""
    wanted = await resolved(db, wanted)
    query = ordered(chosen_runs(RUN_COLUMNS, wanted, seen).where(is_in_state(wanted)), order, after)
    return [RunRow(**row._mapping) for row in await fetch(db, query.limit(limit))]


def key_of(run: RunRow, order: RunOrder) -> tuple[datetime | None, int]:
    """The place of a run in a list."""
    return (run.end_date if order.endswith("end_date") else run.run_after), run.key


async def find_key(db: Database, dag_id: str, run_id: str, order: RunOrder) -> RunKey:
    """The place of a run in a list; by the end, one that has not ended is before all others. Raises NotFound."""
    found = await find_run(db, dag_id, run_id)
    at, key = key_of(found, order)
    return at or (_LAST if order.startswith("-") else _FIRST), key


@dataclass(frozen=True, slots=True)
class BoundedCount:
    """How many there are; with `more`, at least so many."""

    number: int
    more: bool


async def count_runs(db: Database, wanted: WantedRuns, *, most: int = MOST_COUNTED, seen: Seen = None) -> BoundedCount:
    """How many runs are wanted, counted to `most`."""
    wanted = await resolved(db, wanted)
    found = chosen_runs(select(dag_run.c.id), wanted, seen).where(is_in_state(wanted)).limit(most + 1).subquery()
    number = (await fetch(db, select(func.count().label("number")).select_from(found)))[0].number
    return BoundedCount(min(number, most), number > most)


async def run_facets(
    db: Database,
    wanted: WantedRuns,
    *,
    order: RunOrder = "-run_after",
    most: int = MOST_SAMPLED,
    seen: Seen = None,
) -> Facets:
    """The values of the filters among the first `most` runs of a list, with their numbers."""
    wanted = await resolved(db, wanted)
    columns = select(
        dag_run.c.dag_id, dag_run.c.state, dag_run.c.run_type, dag_run.c.reason, is_in_state(wanted).label("is_wanted")
    )
    sample = ordered(chosen_runs(columns, wanted, seen), order, None).limit(most + 1).cte("sample")
    runs = func.count().label("number")
    by_dag = select(sample.c.dag_id, runs).where(sample.c.is_wanted).group_by(sample.c.dag_id).cte("by_dag")
    total = func.sum(by_dag.c.number).label("number")
    of_dags = by_dag.join(dag, dag.c.dag_id == by_dag.c.dag_id)
    owner, team = dag.c.owner.label("value"), dag.c.team.label("value")
    tag = func.unnest(dag.c.tags).table_valued("value").render_derived("tags")
    parts = [
        counted("state", sample, sample.c.state),
        counted("run_type", sample, sample.c.run_type, sample.c.is_wanted),
        counted("reason", sample, sample.c.reason, sample.c.is_wanted),
        most_frequent("dag_id", select(by_dag.c.dag_id.label("value"), by_dag.c.number)),
        most_frequent("owner", select(owner, total).select_from(of_dags).group_by(owner)),
        most_frequent("team", select(team, total).select_from(of_dags).group_by(team)),
        most_frequent("tag", select(tag.c.value, total).select_from(of_dags.join(tag, true())).group_by(tag.c.value)),
        size_of(sample),
    ]
    return await read_facets(db, parts, most)
