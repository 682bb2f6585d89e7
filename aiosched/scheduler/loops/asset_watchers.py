"""Asset watchers: triggers whose events become events of an asset.

The owner of the first unpaused DAG that is scheduled on the asset hands the trigger to its executor, like
those of deferred tasks, and stores an asset event for each of its events. It may briefly run twice when
partitions move, and starts again after a restart, so an event may arrive twice, but aiosched loses none. A watcher
whose events come faster than they can be stored is stopped for a while (attempts/running_watchers.py).

Source: the semantics reference, section 15.1.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aiosched.core.values.messages import Attempt, AttemptKey, Deferral, Report, RunInfo
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.db.assets.watchers import WatchedAsset, load_watchers
from aiosched.scheduler.effects.notify import asset_conditions_changed
from aiosched.scheduler.failures.isolation import spare_others
from aiosched.scheduler.journal.asset_events import store_events
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_AGAIN: Final = 30.0  # seconds before a watcher whose trigger has ended is started again
_EVENTS_PER_TRANSACTION: Final = 500
_BYTES_PER_TRANSACTION: Final = 2**20  # and one event more


async def poll_watchers(session: Session) -> float | None:
    """One pass: store received events, start and stop watchers as the DAGs require; returns how long to rest."""
    book = session.env.attempts.watchers
    book.on_change = session.wakeups.watchers.wake
    now = session.env.clock.monotonic()
    if book.too_fast:
        _stop_for_a_while(session, now)
    if book.events:
        await _store(session)
    while book.ended:
        watched, report = book.ended.popleft()
        book.resting[watched] = now + _AGAIN
        if not session.membership.draining:  # a draining scheduler has ended it itself
            name = watched.watcher.name
            logger.warning("the watcher %s of asset %s has ended: %s", name, watched.asset, report.reason)
    async with session.locks.ownership:
        wanted = set[WatchedAsset]()
        if not session.membership.draining:
            watched_assets, unreadable = await load_watchers(session.env.db, session.cache.partitions)
            wanted = set(watched_assets)
            _note_unreadable(session, unreadable)
        book.resting = {w: at for w, at in book.resting.items() if at > now and w in wanted}
        unwanted = [key for key, watched in book.running.items() if watched not in wanted]
        for key in unwanted:
            del book.running[key]
        session.env.executor.forget(unwanted)
        begun = wanted - set(book.running.values()) - book.resting.keys()
        attempts = []
        for watched in sorted(begun, key=repr):
            try:
                attempts.append(_attempt(book.begin(watched), watched, session))
            except Exception:
                logger.exception("the watcher %s of asset %s cannot start", watched.watcher.name, watched.asset)
                book.resting[watched] = now + _AGAIN
        session.env.executor.submit(attempts)
    settings = session.env.settings
    return 0.0 if book.events or book.ended else settings.scheduler.safety_poll


def _note_unreadable(session: Session, assets: Mapping[str, str]) -> None:
    """Log and count once the assets with watchers that cannot be read: a newer aiosched stored them."""
    book = session.env.attempts.watchers
    for asset in assets.keys() - book.unreadable:
        session.env.metrics.count_unreadable()
        logger.error("the watchers of asset %s cannot be read and do not run here: %s", asset, assets[asset])
    book.unreadable = set(assets)


def _stop_for_a_while(session: Session, now: float) -> None:
    """Stop the watchers that had more events than can wait."""
    book = session.env.attempts.watchers
    stopped, book.too_fast = book.too_fast, {}
    session.env.executor.forget(list(stopped))
    for watched in dict.fromkeys(stopped.values()):
        book.resting[watched] = now + _AGAIN
        session.env.metrics.watchers_stopped += 1
        text = (
            "the watcher %s of asset %s has events faster than they can be stored: stopped, and started again in %d s; "
            "its trigger should make one event of many"
        )
        logger.warning(text, watched.watcher.name, watched.asset, _AGAIN)


async def _store(session: Session) -> None:
    book = session.env.attempts.watchers
    received = book.next_events(most=_EVENTS_PER_TRANSACTION, size=_BYTES_PER_TRANSACTION)

    async def store(some: Sequence[tuple[WatchedAsset, Report]]) -> None:
        async with session.env.side_journal.transaction() as transaction:
            consumers = await store_events(transaction.conn, list(_events(some)))
        asset_conditions_changed(session, consumers)

    for watched, report in await spare_others("an event", received, lambda event: f"asset {event[0].asset}", store):
        logger.error("an event of asset %s is dropped: %.2000s", watched.asset, report.event)
    book.stored(len(received))


def _events(received: Iterable[tuple[WatchedAsset, Report]]) -> Iterable[NewAssetEvent]:
    for watched, report in received:  # the event is JSON already, and may be long
        extra = f'{{"from_asset_watcher": {json.dumps(watched.watcher.name)}, "payload": {report.event or "null"}}}'
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
        bundle=watched.bundle,
        bundle_version=watched.bundle_version,
        team=watched.team,
    )
    watcher = watched.watcher
    trigger = Deferral(classpath=watcher.classpath, kwargs=watcher.kwargs, next_method="")
    return Attempt(
        key=key, run=run, task_id=watcher.name, is_async=True, max_tries=0, trigger=trigger, watches=True
    )  # fmt: skip
