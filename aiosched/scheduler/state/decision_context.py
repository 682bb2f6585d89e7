"""What deciding needs of a session: enough for a scheduler without a database.

The pure halves of the loops (evaluation.py, parts of new_runs.py and loading.py) take a `DecisionContext`. A
`Session` is one; `aiosched.testing` has another, whose rows are in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aiosched.clock import Clock
from aiosched.core.run.board import Board, Instance, Run
from aiosched.scheduler.state.cache import StateCache
from aiosched.scheduler.state.metrics import Metrics
from aiosched.scheduler.state.wakeup import Wakeup

if TYPE_CHECKING:
    from aiosched.scheduler.session import Attempts


class DecisionContext(Protocol):
    """See the module docstring; the fields are those of `Session`."""

    clock: Clock
    attempts: Attempts
    incarnation: int
    metrics: Metrics
    cache: StateCache
    creation: Wakeup
    evaluation: Wakeup
    enqueueing: Wakeup
    unsent: list[tuple[Board, Instance]]

    def absorb(self, board: Board) -> None:
        """Take over a board's effects."""
        ...

    def on_run_end(self, run: Run, /) -> None:
        """A run has ended outside the journal."""
        ...
