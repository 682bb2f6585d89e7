"""Notifications for other schedulers and for waiting clients: sent in the background, after the commit."""

from __future__ import annotations

from collections.abc import Collection

from aiosched.db.statements.inbox import announce_applied, notify
from aiosched.scheduler.session.session import Session


def notify_schedulers(session: Session, kind: str, concerned: Collection[int]) -> None:
    """Notify other schedulers of "attempts", of "slots" (for these incarnations) or of "assets" (of partitions)."""
    session.background.spawn(notify(session.env.db, kind, concerned), f"notification of {kind}")


def announce_answers(session: Session, requests: list[int]) -> None:
    """Notify the clients of these requests that they are answered."""
    session.background.spawn(announce_applied(session.env.db, requests), "notification of answers")


def asset_conditions_changed(session: Session, partitions: Collection[int]) -> None:
    """Asset events were queued for DAGs of these partitions: check our own, notify the owners of the others."""
    cache = session.cache
    cache.work.assets.update(cache.partitions.intersection(partitions))
    session.wakeups.creation.wake()
    if others := set(partitions) - cache.partitions:
        notify_schedulers(session, "assets", others)
