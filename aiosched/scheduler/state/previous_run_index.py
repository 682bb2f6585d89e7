"""Which boards look at which run before theirs, so that news of that run reaches them.

Does not live here: finding the run before (partitions/previous_run.py), what a board makes of it
(core/graph/previous_run.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.graph.previous_run import Past
from aiosched.core.run.board import Board
from aiosched.core.values.states import FINISHED


@dataclass(slots=True)
class PreviousRunIndex:
    """The boards of a scheduler that look back, by the key of the run before theirs."""

    _of: dict[int, dict[Board, None]] = field(default_factory=dict)
    _before: dict[Board, int] = field(default_factory=dict)

    def add(self, board: Board, past: Past, before: int | None) -> None:
        """Let `board` know its past. `before` is the key of the run before it, None for none."""
        self.forget(board)
        board.look_back(past)
        if before is not None:
            self._before[board] = before
            self._of.setdefault(before, {})[board] = None

    def before(self, board: Board) -> int | None:
        """The key of the run before that of `board`; None for none, or when it is not known (yet)."""
        return self._before.get(board)

    def forget(self, board: Board) -> None:
        """The board is not held any more; it lets go of the run before it."""
        board.look_back(None)
        before = self._before.pop(board, None)
        if before is not None:
            followers = self._of[before]
            del followers[board]
            if not followers:
                del self._of[before]

    def overtaken(self, boards: Iterable[Board], logical_date: datetime) -> bool:
        """A run with `logical_date` is new: boards right behind it do not know their past any more. Any?"""
        found = [
            board
            for board in boards
            if board.past is not None
            and board.run.logical_date is not None
            and board.run.logical_date > logical_date
            and (board.past.at is None or board.past.at < logical_date)
        ]
        return self._forget_all(found)

    def look_again(self, run: int) -> bool:
        """The rows of a run that is not held have changed: those who follow it do not know their past any more. Any?"""
        return self._forget_all(list(self._of.get(run, ())))

    def _forget_all(self, boards: list[Board]) -> bool:
        for board in boards:
            self.forget(board)
        return bool(boards)

    def tell(self, board: Board) -> list[Board]:
        """Tell those who follow `board` what changed there and is not collected yet; returns them: evaluate them."""
        followers = self._of.get(board.run.key)
        if not followers:
            return []
        task_ids = board.graph.task_ids
        changed = {task_ids[i.task] for i in board.effects.changed if i.state in FINISHED or i.stored_state in FINISHED}
        told = []
        for follower in followers:
            past = follower.past
            if past is not None and past.previous is not board:
                follower.look_back(dataclasses.replace(past, previous=board))
            elif changed:
                follower.past_changed(changed)
            else:
                continue
            told.append(follower)
        return told
