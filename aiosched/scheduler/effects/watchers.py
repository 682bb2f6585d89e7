"""Asset watchers: triggers whose events become events of an asset.

The owner of the first unpaused DAG that is scheduled on the asset hands the trigger to its executor, like
those of deferred tasks, and stores an asset event for each of its events. It may briefly run twice when
partitions move, and starts again after a restart, so an event may arrive twice, but aiosched loses none.

Source: the semantics reference, section 15.1.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Final

from aiosched.core.values.messages import Attempt, AttemptKey, Deferral, Report, RunInfo
from aiosched.db.statements.assets import NewAssetEvent
from aiosched.db.statements.watchers import WatchedAsset, load_watchers
from aiosched.scheduler.effects.notify import asset_conditions_changed
from aiosched.scheduler.journal.asset_events import store_events
from aiosched.scheduler.session.session import Session

logger = logging.getLogger(__name__)

_AGAIN: Final = 30.0  # seconds before a watcher whose trigger has ended is started again


async def poll_watchers(session: Session) -> float | None:
    """One pass: store received events, start and stop watchers as the DAGs require; returns how long to rest."""
    book = session.env.attempts.watchers
    book.on_change = session.wakeups.watchers.wake
    if book.events:
        await _store(session)
    now = session.env.clock.monotonic()
    while book.ended:
        watched, report = book.ended.popleft()
        book.resting[watched] = now + _AGAIN
        if not session.membership.draining:  # a draining scheduler has ended it itself
            name = watched.watcher.name
            logger.warning("the watcher %s of asset %s has ended: %s", name, watched.asset, report.reason)
    async with session.locks.ownership:
        wanted = set[WatchedAsset]()
        if not session.membership.draining:
            async with session.env.db.acquire() as conn:
                wanted = set(await load_watchers(conn, session.cache.partitions))
        book.resting = {w: at for w, at in book.resting.items() if at > now and w in wanted}
        unwanted = [key for key, watched in book.running.items() if watched not in wanted]
        for key in unwanted:
            del book.running[key]
        session.env.executor.forget(unwanted)
        begun = wanted - set(book.running.values()) - book.resting.keys()
        session.env.executor.submit(
            [_attempt(book.begin(watched), watched, session) for watched in sorted(begun, key=repr)]
        )
    return 0.0 if book.events or book.ended else session.env.settings.scheduler.safety_poll


async def _store(session: Session) -> None:
    events = session.env.attempts.watchers.events
    received = [events[i] for i in range(len(events))]
    async with session.env.command_journal.transaction() as transaction:
        consumers = await store_events(transaction.conn, list(_events(received)))
    for _ in received:
        events.popleft()
    asset_conditions_changed(session, consumers)


def _events(received: Iterable[tuple[WatchedAsset, Report]]) -> Iterable[NewAssetEvent]:
    for watched, report in received:
        extra = json.dumps({"from_asset_watcher": watched.watcher.name, "payload": json.loads(report.event or "null")})
        yield NewAssetEvent(watched.asset, watched.uri, extra, None, report.at)


def _attempt(key: AttemptKey, watched: WatchedAsset, session: Session) -> Attempt:
    now = session.env.clock.now()
    run = RunInfo(
        key=key.run,
        dag_id=watched.dag_id,
        run_id="asset_watchers",
        run_type="watcher",
        run_after=now,
        version=watched.version,
        file=watched.file,
        source_hash=watched.source_hash,
        modules=watched.modules,
    )
    watcher = watched.watcher
    trigger = Deferral(classpath=watcher.classpath, kwargs=watcher.kwargs, next_method="")
    return Attempt(
        key=key, run=run, task_id=watcher.name, is_async=True, max_tries=0, trigger=trigger, watches=True
    )  # fmt: skip
