"""Tells the executor what runs next, so that it has imported the DAG files when the first tasks are due.

No statement is needed: what is expected is in memory. An executor without `prepare` is told nothing.
Source: decision 55.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime

from aiosched.core.creation.upcoming import NO_RUN, Expected, choose_upcoming
from aiosched.core.values.messages import RunInfo
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


def announce_upcoming(session: Session, now: datetime) -> None:
    """Announce the runs that have come within reach since the last call."""
    expected = session.cache.work.upcoming
    if not (dag_ids := expected.soon(now)) or expected.ahead is None:
        return
    try:
        if upcoming := choose_upcoming(_expected(session, dag_ids, now + expected.ahead)):
            session.env.executor.prepare(upcoming)  # type: ignore[attr-defined] # else there is no `ahead`
    except Exception:  # they are imported with their first tasks
        logger.exception("the DAG files of the next runs could not be announced")


def _expected(session: Session, dag_ids: Iterable[str], until: datetime) -> Iterator[Expected]:
    """Those of the DAGs that may still run then, in this order, with their newest code."""
    for dag_id in dict.fromkeys(dag_ids):
        dag = session.cache.dags.get(dag_id)
        if dag is None or not dag.creates_runs:
            continue
        planned = None if dag.next_run is None else dag.next_run.run_after
        if planned is not None and planned <= until:
            yield Expected(dag.version.spec, _code_of(dag, planned))
        elif dag.runs.queued:
            yield Expected(dag.version.spec, _code_of(dag, until))


def _code_of(dag: OwnedDag, at: datetime) -> RunInfo:
    version = dag.version
    return RunInfo(
        key=NO_RUN,
        dag_id=dag.row.dag_id,
        run_id="",
        run_type="",
        run_after=at,
        version=version.number,
        file=version.file,
        source_hash=version.source_hash,
        modules=version.modules,
        bundle=version.bundle,
        bundle_version=version.bundle_version,
        team=dag.row.team,
    )
