"""Runs that are left alone because some of their rows cannot be read: a newer aiosched wrote them, or they are broken.

Their rows stay as they are, for a scheduler that can read them; requests about them are refused with the reason. Their
attempts that run here become remote attempts (handover.py). Runs whose DAG version cannot be read are left alone in the
same way (memory/versions.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aiosched.core.graph.instances import Instance, Run
from aiosched.core.values.ids import partition_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import load_readable_instances
from aiosched.scheduler.partitions.run_rehydration import NOTHING, Rehydration, rehydrate
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


class LoadedRun(NamedTuple):
    """A run, and what a board needs besides it."""

    run: Run
    instances: Iterable[Instance]
    rehydration: Rehydration


async def load_contents(session: Session, conn: DatabaseConnection, runs: Sequence[Run]) -> list[LoadedRun]:
    """Read the instances of runs and what their boards need; runs with rows that cannot be read are left alone."""
    instances, unreadable = await load_readable_instances(conn, [run.key for run in runs])
    rehydrations = await rehydrate(conn, [run for run in runs if run.key in instances], session.cache)
    unreadable |= {key: found.unreadable for key, found in rehydrations.items() if found.unreadable is not None}
    for run in runs:
        if (error := unreadable.get(run.key)) is not None:
            session.cache.unreadable.errors[run.key] = error
            session.env.metrics.count_unreadable()
            extra = {"dag_id": run.dag_id, "run_id": run.run_id}
            logger.error("the run is left alone with its tasks: %s", error, extra=extra)
    leave_alone(session, [run for run in runs if run.key in unreadable])
    return [
        LoadedRun(run, instances[run.key], rehydrations.get(run.key, NOTHING))
        for run in runs
        if run.key not in unreadable
    ]


def leave_alone(session: Session, runs: Iterable[Run]) -> None:
    """Hold none of these runs; unfinished ones keep their places in the limits of their DAGs."""
    left = list(runs)
    for run in left:
        if (dag := session.cache.dags.get(run.dag_id)) is not None:
            dag.runs.starting.discard(run.key)
            dag.runs.unread.append(run)
    leave_keys_alone(session, {run.key: run.dag_id for run in left})


def leave_keys_alone(session: Session, runs: Mapping[int, str]) -> None:
    """Hold none of these runs, given by their keys with their DAGs: nothing else of them was read."""
    if runs:
        session.cache.unreadable.runs.update(runs)
        session.env.attempts.hand_over({key: partition_of(dag_id) for key, dag_id in runs.items()})
