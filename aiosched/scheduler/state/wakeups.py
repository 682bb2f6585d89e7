"""The wake-ups of a session's loops."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from aiosched.scheduler.state.wakeup import Wakeup


@dataclass(slots=True)
class Wakeups:
    """One wake-up for each loop."""

    creation: Wakeup = field(default_factory=Wakeup)
    evaluation: Wakeup = field(default_factory=Wakeup)
    enqueueing: Wakeup = field(default_factory=Wakeup)
    notifications: Wakeup = field(default_factory=Wakeup)
    callbacks: Wakeup = field(default_factory=Wakeup)  # callbacks and deadlines
    retention: Wakeup = field(default_factory=Wakeup)
    remote_attempts: Wakeup = field(default_factory=Wakeup)  # attempts that run here for others
    watchers: Wakeup = field(default_factory=Wakeup)  # asset watchers
    broadcast: Wakeup = field(default_factory=Wakeup)  # changes for browsers

    @property
    def all(self) -> tuple[Wakeup, ...]:
        """All wake-ups."""
        return tuple(getattr(self, one.name) for one in fields(self))

    def wake_all(self) -> None:
        """Have each loop make a pass."""
        for wakeup in self.all:
            wakeup.wake()

    def stop_all(self) -> None:
        """Have each loop end after its current pass."""
        for wakeup in self.all:
            wakeup.stop()
