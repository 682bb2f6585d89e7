"""Attempts that were told to end. The next attempt of their task instance waits for that, so that two never overlap.

One that runs here has ended when it is reported. One that runs in another scheduler (partitions/handover.py) has ended
when its report arrives, or when that scheduler leaves the fleet. It is not waited for without a bound, since a report
may be impossible to store. Source: docs/decisions/0017-attempts-stay-when-partitions-move.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field

from aiosched.config import Settings
from aiosched.core.run.board import Board
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.scheduler.attempts.stuck_attempts import PATIENCE


@dataclass(frozen=True, slots=True)
class EndingAttempt:
    """An attempt that was told to end.

    `partition` is that of its DAG, None if not known; `scheduler` runs it, None for this one.
    """

    key: AttemptKey
    partition: int | None
    scheduler: int | None
    until: float  # monotonic second: no longer waited for


@dataclass(slots=True)
class EndingAttempts:
    """See the module docstring. `patience`: for how many seconds one in another scheduler is waited for."""

    patience: float = 90.0
    _by_instance: dict[tuple[int, ...], EndingAttempt] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> EndingAttempts:
        """Another scheduler notices within one safety poll; its report is read within another."""
        return cls(2 * settings.scheduler.safety_poll + settings.core.killed_task_cleanup_time + PATIENCE)

    def __len__(self) -> int:
        return len(self._by_instance)

    def __contains__(self, instance: tuple[int, ...]) -> bool:
        return instance in self._by_instance

    def begin(self, key: AttemptKey, partition: int | None) -> None:
        """An attempt that runs here is told to end."""
        known = self._by_instance.get(key[:3])
        if known is None or known.key != key:
            self._by_instance[key[:3]] = EndingAttempt(key, partition, None, math.inf)

    def cancelled(
        self,
        board: Board,
        here: Container[AttemptKey],
        elsewhere: Container[int],
        reports: Iterable[Report],
        now: float,
    ) -> None:
        """Attempts of this run were cancelled. Some run `here`, others in the schedulers `elsewhere`, which notice it.

        One whose end is among these `reports` has ended already.
        """
        partition = partition_of(board.run.dag_id)
        for key, scheduler in board.effects.cancelled.items():
            if key in here:
                self.begin(key, partition)
            elif scheduler is not None and scheduler in elsewhere and not _has_ended(reports, key):
                self._by_instance[key[:3]] = EndingAttempt(key, partition, scheduler, now + self.patience)

    def ended(self, key: AttemptKey) -> None:
        """Its end was reported, or another scheduler owns it from now on."""
        known = self._by_instance.get(key[:3])
        if known is not None and known.key == key:
            del self._by_instance[key[:3]]

    def give_up(self, now: float, gone: Collection[int] = ()) -> list[AttemptKey]:
        """No longer wait for attempts of schedulers that are gone, nor for those that take too long: return them."""
        given_up = [each.key for each in self._by_instance.values() if each.until < now or each.scheduler in gone]
        for key in given_up:
            del self._by_instance[key[:3]]
        return given_up

    def partitions(self) -> set[int]:
        """They stay with this scheduler: another one would not know that it has to wait."""
        return {each.partition for each in self._by_instance.values() if each.partition is not None}

    def schedulers(self) -> set[int]:
        """The other schedulers that are waited for."""
        return {each.scheduler for each in self._by_instance.values() if each.scheduler is not None}

    def clear(self) -> None:
        self._by_instance.clear()


def _has_ended(reports: Iterable[Report], key: AttemptKey) -> bool:
    return any(report.key == key and report.outcome is not Outcome.STARTED for report in reports)
