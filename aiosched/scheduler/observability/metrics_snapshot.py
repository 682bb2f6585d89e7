"""The figures of one scheduler as JSON: stored in its row for the fleet, and exported by `/metrics`.

    {"counters": {name: number}, "histograms": {name: {count, sum, bounds, buckets}}, "tasks": {state: number},
     "finished": {outcome: number},
     "executor": {name: {open, open_async, blocked, times_blocked,
                         engine: {workers: n, slots: n, queues: {name: length}, listed: [[name, slots, jobs]],
                                 unserved: [[queue of tasks, team, name]]}}},
     "parallelism": n, "in_flight": n,
     "oldest_queued_seconds": n or null, "runs": n, "dags_in_quarantine": n, "waiting": {pool: n},
     "in_vain": [[kind, name, reason, n]],
     "not_removed": [text], "left_alone": [text],
     "remarks": [text],
     "pools": {pool: {queued: slots, running: slots}},
     "parsing": {files, dags, errors, seconds, busy_seconds} or null, "trouble": text or null}

Instants and durations are in seconds. `blocked` and `times_blocked` are there for the local executor only
(executors/local/blocked_loops.py), `engine` for engines that say what they see; it lists the first workers.
`remarks` are about its machine (files, clock), to be read after its name.
`waiting` counts the task instances that are ready and have no slot, `in_vain` those of them that can never start: for
want of which pool or executor, and why. `trouble` is the unforeseen error that ends one
session after the other, while it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from aiosched.core.figures.metrics import Histogram, Metrics
from aiosched.core.values.messages import Executor
from aiosched.executors.engines.engine import EngineStatus, TroubledEngine, WatchedEngine
from aiosched.executors.executor_router import members_of
from aiosched.executors.local.blocked_loops import BlockedLoops
from aiosched.parsing.service import ParserStats
from aiosched.scheduler.engines.engine_executor import EngineExecutor
from aiosched.scheduler.membership.heartbeat import histogram_figures
from aiosched.scheduler.session.session import Session

_MOST_TEXTS: Final = 5
_MOST_WORDS: Final = 500  # characters of what an engine suffers from
_MOST_LISTED: Final = 100  # workers and queues of one engine


def figures_of(
    session: Session | None,
    metrics: Metrics,
    parsing: ParserStats | None,
    *,
    trouble: str | None = None,
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """A snapshot; call it on the scheduler's event loop. Very many attempts are counted less often."""
    found: dict[str, Any] = {"counters": {}, "histograms": {}, "finished": dict(metrics.finished)}
    for each in dataclasses.fields(metrics):
        value = getattr(metrics, each.name)
        if isinstance(value, Histogram):
            found["histograms"][each.name] = histogram_figures(value)
        elif isinstance(value, int):
            found["counters"][each.name] = value
    found["parsing"] = None if parsing is None else dataclasses.asdict(parsing)
    found["trouble"] = trouble
    differences = () if parsing is None else parsing.differences
    found["remarks"] = [*remarks, *differences][:_MOST_TEXTS]
    if session is not None:
        found |= _of_session(session)
    return found


def _of_session(session: Session) -> dict[str, Any]:
    attempts, cache, now = session.env.attempts, session.cache, session.env.clock.monotonic()
    counts = session.in_flight
    counts.count(attempts, cache, now)
    return {
        "pools": counts.pools,
        "tasks": {
            "scheduled": len(cache.waiting),
            "queued": counts.queued,
            "running": counts.running,
            "deferred": len(attempts.triggers),
        },
        "executor": {name: _of_executor(member) for name, member in members_of(session.env.executor).items()},
        "oldest_queued_seconds": None if counts.oldest_queued is None else round(now - counts.oldest_queued, 3),
        "parallelism": session.env.settings.core.parallelism,
        "in_flight": len(attempts.in_flight),
        "runs": len(cache.boards),
        "dags_in_quarantine": len(cache.quarantine.dags),
        "waiting": cache.waiting.by_pool(),
        "in_vain": [[*why, number] for why, number in islice(cache.waiting.in_vain().items(), _MOST_LISTED)],
        "not_removed": session.env.unremovable.texts()[:_MOST_TEXTS],
        "left_alone": list(islice(cache.unreadable.texts(), _MOST_TEXTS)),
    }


def _of_executor(member: Executor) -> dict[str, Any]:
    found: dict[str, Any] = {"open": member.open_slots, "open_async": member.open_async_slots}
    if isinstance(loops := getattr(member, "blocked_loops", None), BlockedLoops):
        found |= {"blocked": loops.figures(), "times_blocked": loops.total}
    if isinstance(member, EngineExecutor) and isinstance(member.engine, WatchedEngine):
        found["engine"] = _of_engine(member.engine.status())
    if isinstance(member, EngineExecutor) and isinstance(member.engine, TroubledEngine) and member.engine.trouble:
        found["trouble"] = member.engine.trouble[:_MOST_WORDS]
    return found


def _of_engine(status: EngineStatus) -> dict[str, Any]:
    return {
        "workers": len(status.workers),
        "slots": sum(worker.slots for worker in status.workers),
        "queues": dict(islice(status.queues.items(), _MOST_LISTED)),
        "unserved": [list(each) for each in islice(status.unserved, _MOST_LISTED)],
        "listed": [[each.name, each.slots, each.jobs] for each in islice(status.workers, _MOST_LISTED)],
    }
