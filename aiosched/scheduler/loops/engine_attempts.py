"""The loop that loses the attempts on engines whose worker has died.

Each has a row until its final report is stored, in one transaction; so an attempt with neither row nor report is lost.
Adopting those of a partition that was gained: partitions/loading.py.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import logging

from aiosched.core.values.messages import Outcome, Report
from aiosched.db.engines.attempts import lose_expired, unfinished
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_NO_TRACE = "it was on an engine, and there is neither its row nor its report"


async def watch_engines(session: Session) -> float | None:
    """One pass: lose the attempts whose worker was silent for too long; returns how long to rest, None for no engines.

    After an adoption workers get the time of a lease first, since perhaps no server has answered them meanwhile.
    """
    env, attempts = session.env, session.env.attempts
    lease = env.settings.executor.worker_lease
    if not env.engines:
        return None
    if not attempts.on_engines:
        return lease / 3
    if not session.cache.partitions or env.clock.monotonic() < env.engines.adopted_at + lease:
        return lease / 3
    async with env.db.transaction() as conn:
        lost = await lose_expired(conn, session.cache.partitions, now=env.clock.now())
    if lost:
        logger.warning("%d attempts were lost with their workers on engines", lost)
    await _lose_without_trace(session)
    return lease / 3


async def _lose_without_trace(session: Session) -> None:
    """Somebody has deleted rows by hand: their attempts have nobody who could report."""
    env, attempts, engines = session.env, session.env.attempts, session.env.engines
    stored = [key for key in attempts.on_engines if engines.is_stored(key)]
    missing = set(stored) - await unfinished(env.db, stored)
    before, engines.without_trace = engines.without_trace, missing
    for key in before & missing:
        if key in attempts.on_engines:
            attempts.receive(Report(key=key, outcome=Outcome.LOST, at=env.clock.now(), reason=_NO_TRACE))
