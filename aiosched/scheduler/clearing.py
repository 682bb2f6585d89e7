"""Clearing and marking: requests about task instances and runs that exist.

Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aiosched.core.board import Board, Run
from aiosched.db import runs as statements
from aiosched.scheduler.holdings import Batch, make_board
from aiosched.scheduler.journal import Transaction
from aiosched.scheduler.session import Session
from aiosched.scheduler.versions import ensure_versions


async def clear_whole_runs(session: Session, transaction: Transaction, runs: Sequence[Run], now: datetime) -> None:
    """Clear every task instance of runs that are not held, in a transaction that is open; they are queued then."""
    boards = await load_boards(session, transaction, runs)
    for board in boards:
        board.clear(list(board), now)
    await store_boards(session, transaction, boards)


async def load_boards(session: Session, transaction: Transaction, runs: Sequence[Run]) -> list[Board]:
    """Boards of runs that are not held, for a change that is stored in the same transaction."""
    await ensure_versions(session, transaction.conn, {run.version_id for run in runs})
    instances = await statements.load_instances(transaction.conn, [run.key for run in runs])
    return [make_board(run, *session.holdings.versions[run.version_id], instances[run.key]) for run in runs]


async def store_boards(session: Session, transaction: Transaction, boards: Sequence[Board]) -> None:
    """Store what changed on boards that are not held."""
    batch = Batch()
    for board in boards:
        session.holdings.collect_board(board, batch)
    if not batch.is_empty:
        await transaction.write(batch)
