"""Decisions that are not known to be stored: boards and changes that wait, and changes that were sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.graph.instances import RowEffects
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import Report
from aiosched.core.values.states import TaskState
from aiosched.scheduler.memory.changes import Changes

MOST_WAITING: Final = 200  # rows of one run in one commit that only say that their task waits for a slot


@dataclass(slots=True)
class Unstored:
    """See the module docstring."""

    dirty: dict[Board, None] = field(default_factory=dict)  # have something to store
    pending: Changes = field(default_factory=Changes)  # other changes for the next commit
    storing: Changes | None = None  # sent, not yet known to be committed
    is_void: bool = False  # discarded

    def discard(self) -> None:
        """Store nothing of this any more: a decision was cut off by an error."""
        self.is_void = True

    def delete_report(self, number: int) -> None:
        """Delete the row of a report of another scheduler, in the transaction that stores its effects."""
        self.pending.messages.read_reports.append(number)

    def start(self, board: Board) -> None:
        """A run has started: its listener and browsers hear of it after the commit."""
        self.pending.effects.started.append(board)

    def end(self, board: Board) -> None:
        """A run has ended in memory; it is released after the commit."""
        self.pending.effects.finished.append(board)

    @property
    def is_waiting(self) -> bool:
        """Whether the next commit has something to store besides the use of slots."""
        messages = self.pending.messages
        return bool(self.dirty or self.pending.effects.finished or messages.answers or messages.read_reports)

    def runs_that_end(self) -> Iterator[Board]:
        """The runs that have ended in memory but whose end is not committed yet."""
        yield from self.pending.effects.finished
        if self.storing is not None:
            yield from self.storing.effects.finished

    def reports(self) -> list[Report]:
        """The reports whose effects are not committed yet, in their order."""
        return [*(self.storing.effects.received if self.storing is not None else ()), *self.pending.effects.received]

    def answers(self) -> set[int]:
        """The requests that are applied in memory but whose answers are not committed yet."""
        storing = self.storing.messages.answers if self.storing is not None else ()
        return {number for number, _ in (*storing, *self.pending.messages.answers)}


def rows_to_store(rows: RowEffects) -> dict[Instance, None]:
    """The rows to store now, of a long run without some of those that only say that their task waits for a slot.

    So a run with very many tasks does not hold up the commit of others. What is not stored yet is decided again after
    a restart.
    """
    rows.changed.update(rows.lazy)
    if not rows.later and len(rows.changed) <= MOST_WAITING:
        return rows.changed
    now, later, room = dict[Instance, None](), rows.later, MOST_WAITING
    for instance in rows.changed:
        if instance.state is not TaskState.SCHEDULED or instance.stored_state is not TaskState.NONE:
            now[instance] = None
        else:
            later.append(instance)
    while later and room:
        instance = later.popleft()
        if instance.state is TaskState.SCHEDULED and instance.stored_state is TaskState.NONE:
            now[instance] = None
            room -= 1
    return now
