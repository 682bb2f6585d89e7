"""Starts of attempts that wait briefly for another commit to include them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.run.board import Board
from aiosched.scheduler.concurrency.wakeup import Wakeup
from aiosched.scheduler.memory.cache import StateCache

_SECONDS: Final = 0.25


@dataclass(slots=True)
class LazyStarts:
    """A start that no other commit has included within `_SECONDS` gets its own."""

    cache: StateCache
    enqueueing: Wakeup
    _boards: dict[Board, None] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def add(self, board: Board) -> None:
        """The board has starts to store."""
        self._boards[board] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._store)

    def cancel(self) -> None:
        """Store nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _store(self) -> None:
        self._timer = None
        boards, self._boards = self._boards, {}
        for board in boards:
            if board.effects.rows.lazy and board.run.key in self.cache.boards:
                self.cache.unstored.dirty[board] = None
        if self.cache.unstored.dirty:
            self.enqueueing.wake()
