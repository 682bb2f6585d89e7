"""Memory is a cache of rows: a slow sweep compares the two and counts the differences, of which there must be none.

Every few seconds some of the held runs are read again by key. A difference is a bug in aiosched: it is logged and
counted, and everything is read again. Source: docs/architecture.md, "Who writes what".
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Final

from aiosched.core.graph.instances import Instance
from aiosched.core.run.board import Board
from aiosched.db.statements.runs import load_instances
from aiosched.errors import StaleRows
from aiosched.scheduler.failures.isolation import for_each_dag
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_MOST_RUNS: Final = 20  # compared in one step
_MOST_TASKS: Final = 2_000  # in all of these runs together, unless a single run has more


class DriftSweep:
    """Compares the held runs in turn, some in each step."""

    def __init__(self) -> None:
        self._last = 0  # key of the run that was compared last

    async def step(self, session: Session) -> None:
        """Compare the next runs with their rows. Raises StaleRows when something differs."""
        cache = session.cache
        if not cache.boards:
            return
        async with session.env.journal.quiet() as conn:
            if cache.unstored.storing is not None:  # a batch was refused: the session is about to end
                return
            boards = self._next(list(cache.boards.values()))

            async def compare(some: Sequence[Board]) -> list[str]:
                rows = await load_instances(conn, [board.run.key for board in some])
                return [
                    text
                    for board in some
                    if board not in cache.unstored.dirty and cache.boards.get(board.run.key) is board
                    for text in differences(board, rows[board.run.key])
                ]

            wrong = await for_each_dag(
                "comparing it with its rows", boards, lambda board: board.run.dag_id, compare, held=cache.dags
            )
        if wrong:
            session.env.metrics.differences += len(wrong)
            logger.error("%d task instances differ from the rows: %s", len(wrong), "; ".join(wrong[:5]))
            raise StaleRows(f"{len(wrong)} task instances in memory differ from the rows: this is a bug in aiosched")

    def _next(self, boards: Sequence[Board]) -> list[Board]:
        ordered = sorted(boards, key=lambda board: (board.run.key <= self._last, board.run.key))
        sizes = itertools.accumulate(len(board.graph.task_ids) for board in ordered)
        chosen = [board for board, size in zip(ordered, sizes, strict=True) if size <= _MOST_TASKS][:_MOST_RUNS]
        chosen = chosen or ordered[:1]
        if chosen:  # the last run may have ended while we waited for the journal
            self._last = chosen[-1].run.key
        return chosen


def differences(board: Board, rows: Sequence[Instance]) -> list[str]:
    """A sentence for each instance whose stored state and try differ from what the board expects."""
    held = {(i.task, i.map_index): (i.stored_state, i.stored_try) for i in board}
    stored = {(i.task, i.map_index): (i.state, i.try_number) for i in rows}
    return [
        f"run {board.run.key}, task {task}, map index {map_index}: "
        f"held as {_text(held.get((task, map_index)))}, stored as {_text(stored.get((task, map_index)))}"
        for task, map_index in sorted(held.keys() | stored.keys())
        if held.get((task, map_index)) != stored.get((task, map_index))
    ]


def _text(what: tuple[object, int] | None) -> str:
    return "absent" if what is None else f"{what[0]} in try {what[1]}"
