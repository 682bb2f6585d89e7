"""The safeguards of the scheduler, each as something that can be taken away.

Each is a context manager under which a simulated fleet (tests/simulation) runs without it. Several
dangers have two lines of defence; then taking away one is harmless, and that is tested, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import msgspec

from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome, Report
from aiosched.db.statements import outbox as outbox_statements
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.loops import enqueueing
from aiosched.scheduler.membership import incarnation
from aiosched.scheduler.memory.changes import Committed
from aiosched.scheduler.requests import triggers
from aiosched.scheduler.session.session import Session
from tests.simulation import fleet, statements
from tests.simulation.store import Strength, Transaction

Removal = Callable[[], contextlib.AbstractContextManager[Any]]
_handlers = statements.HANDLERS


@contextlib.contextmanager
def _instead(original: Any, replacement: Any) -> Iterator[None]:
    """Let the modelled statement that `original` carries out be carried out by `replacement`."""
    texts = [text for text, handler in _handlers.items() if handler is original]
    assert texts
    with mock.patch.dict(_handlers, dict.fromkeys(texts, replacement)):
        yield


def fence() -> contextlib.AbstractContextManager[Any]:
    """`FOR KEY SHARE` on the own scheduler row: who was taken over cannot commit."""

    async def always(transaction: Transaction, number: int) -> bool:
        return True

    return mock.patch.object(statements, "fenced", always)


def guard() -> contextlib.AbstractContextManager[Any]:
    """Updates name the state and the try that they expect."""
    return mock.patch.object(statements, "guarded", return_value=True)


def pool_guard() -> contextlib.AbstractContextManager[Any]:
    """`used + n <= slots` in the update that claims."""
    return mock.patch.object(statements, "fits", return_value=True)


def pool_lock() -> contextlib.AbstractContextManager[Any]:
    """`FOR UPDATE` on the pools while it is decided who gets their slots."""

    async def read_only(t: Transaction, names: list[str]) -> statements.Answer:
        return statements.locked_pools(t, names)

    return _instead(statements.lock_pools, read_only)


def commit_first() -> contextlib.AbstractContextManager[Any]:
    """A claim is handed out after the commit that stores it."""

    async def hand_out_first(session: Session) -> float | None:
        async with session.env.journal.batch(shared=session.membership.has_peers) as transaction:
            batch = await enqueueing._decide(session, transaction)
            after_commit(session, Committed(batch))
            await transaction.write(batch)
        return 0.0 if session.cache.unstored.dirty else 0.5

    return mock.patch.object(incarnation, "enqueue", hand_out_first)


def one_process() -> contextlib.AbstractContextManager[Any]:
    """After a doubt, attempts that run in this process are known, and not started again."""
    return mock.patch.object(Attempts, "known", return_value=frozenset())


def trust() -> contextlib.AbstractContextManager[Any]:
    """Nothing is handed out once the lease may have run out."""
    return mock.patch.object(fleet.VirtualLease, "trusted", return_value=True)


def exactly_once() -> contextlib.AbstractContextManager[Any]:
    """A request is answered by the transaction that does what it asks."""

    async def create_then_answer(session: Session, creations: Any, now: Any, *, answering: Sequence[int]) -> Any:
        runs = await original(session, creations, now)
        answers = [
            (request, {"run_id": run.run_id, "id": run.key})
            for request, run in zip(answering, runs, strict=True)
            if run is not None
        ]
        async with session.env.side_journal.transaction() as transaction:
            await transaction.answer_all(answers)
        return runs

    original = triggers.create
    return mock.patch.object(triggers, "create", create_then_answer)


def stale_reports() -> contextlib.AbstractContextManager[Any]:
    """Reports of attempts that are over are dropped: where they arrive, and where they would count."""

    def receive(self: Attempts, report: Report) -> None:
        if report.key.task_index >= 0:
            if report.outcome is not Outcome.STARTED:
                self.in_flight.pop(report.key, None)
            self.reports.append(report)
            self.on_report()
        else:
            original_receive(self, report)

    def apply(self: Board, report: Report, now: Any) -> bool:
        instance = self.find(report.key.task_index, report.key.map_index)
        if instance is not None and report.key.try_number > 0:
            key = report.key._replace(try_number=instance.try_number)
            report = msgspec.structs.replace(report, key=key)
        return original_apply(self, report, now)

    original_receive, original_apply = Attempts.receive, Board.apply
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Attempts, "receive", receive))
    stack.enter_context(mock.patch.object(Board, "apply", apply))
    return stack


def free_partitions() -> contextlib.AbstractContextManager[Any]:
    """Only partitions that nobody owns are taken."""

    async def take(t: Transaction, number: int, wanted: list[int]) -> statements.Answer:
        for partition in wanted:
            await t.lock("partition_lease", partition, Strength.UPDATE)
            t.put("partition_lease", partition, {"incarnation": number})
        return statements.answer("partition", [[partition] for partition in wanted], "UPDATE")

    return _instead(statements.acquire, take)


def lost_attempts() -> contextlib.AbstractContextManager[Any]:
    """Attempts that died with their scheduler are noticed when their rows are read."""
    return mock.patch.object(Board, "lose", return_value=None)


def waiting_for_the_past() -> contextlib.AbstractContextManager[Any]:
    """A task that depends on its past waits until the run before allows it to begin."""
    return mock.patch.object(Board, "waits_for_past", return_value=None)


def kept_callbacks() -> contextlib.AbstractContextManager[Any]:
    """A request for a callback is kept until it has run."""

    async def begin_and_forget(conn: Any, ids: Sequence[int], *, most: int) -> Any:
        found = await original(conn, ids, most=most)
        await outbox_statements.delete_callbacks(conn, ids)
        return found

    original = outbox_statements.begin_deliveries
    return mock.patch.object(outbox_statements, "begin_deliveries", begin_and_forget)


def settled_commits() -> contextlib.AbstractContextManager[Any]:
    """Nothing that was sent on a lost connection is under way any more when rows are read again."""

    async def at_once(self: Journal) -> None:
        self._unsettled.clear()

    return mock.patch.object(Journal, "settle", at_once)


def together(*removals: Removal) -> contextlib.AbstractContextManager[Any]:
    """Without all of these."""
    stack = contextlib.ExitStack()
    for removal in removals:
        stack.enter_context(removal())
    return stack
