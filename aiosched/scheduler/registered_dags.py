"""The DAGs that a process gives to its scheduler as objects: stored at its start, like those of files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from aiosched.clock import Clock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.ids import partition_of
from aiosched.core.values.texts import a_type
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import ConfigError
from aiosched.parsing.store import register_specs

if TYPE_CHECKING:
    from aiosched.authoring import DAG

logger = logging.getLogger(__name__)

LIST_AGAIN: Final = 600.0  # seconds; a list of runs covers at least the next two hours


def by_id(dags: Iterable[DAG]) -> dict[str, DAG]:
    """These DAGs by id. Raises ConfigError if one is something else, or two have one id."""
    if dags == ():
        return {}
    from aiosched.authoring import DAG  # a scheduler that has only files does without

    if not isinstance(dags, Iterable):
        raise ConfigError(f"dags= takes a list of DAG objects, not {a_type(dags)}.")
    found: dict[str, DAG] = {}
    for dag in dags:
        if not isinstance(dag, DAG):
            hint = ": call what @dag decorates, as in dags=[nightly()]" if callable(dag) else ""
            raise ConfigError(f"dags= takes DAG objects, not {a_type(dag)}{hint}.")
        if dag.dag_id in found:
            raise ConfigError(f"dags= has two DAGs with the id {dag.dag_id!r}: give each its own.")
        found[dag.dag_id] = dag
    return found


async def register_dags(db: Database, dags: Sequence[DAG], clock: Clock, *, paused: bool) -> None:
    """Store these DAGs and tell the owners of what has changed; new ones are `paused`. Their first attempts begin
    without delay: what they need is computed now.
    """
    if not dags:
        return
    now = clock.now()
    specs = await asyncio.to_thread(lambda: [_spec_of(dag, now) for dag in dags])
    async with db.transaction() as conn:
        stored = await register_specs(conn, specs, now=now, paused_at_creation=paused)
    if stored.changed:
        async with db.acquire() as conn:
            await inbox.notify(conn, "dags", map(partition_of, stored.changed))


def _spec_of(dag: DAG, now: datetime) -> DagSpec:
    from aiosched.executors.attempt.plans import plan_tasks  # authoring code, which others that serve do without

    plan_tasks(dag)
    return dag.to_spec(now=now)


async def list_runs_anew(db: Database, dags: Sequence[DAG], clock: Clock, *, paused: bool) -> None:
    """Periodically renew the lists of runs that custom timetables provide for a limited time ahead."""
    while any(dag.lists_runs for dag in dags):
        await asyncio.sleep(LIST_AGAIN)
        try:
            await register_dags(db, dags, clock, paused=paused)
        except Exception as error:  # from a custom timetable or the database: the current lists stay valid
            logger.error("the runs of registered DAGs cannot be listed again: %s", error)
