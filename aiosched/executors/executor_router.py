"""Combines several executors: each attempt goes to the executor that its task names, or to the first.

Does not live here: which attempts fit (scheduler/slots/claiming.py reads the members' open slots), creating executors
from the settings (scheduler/executor_choice.py).
Source: the semantics reference, section 19.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiosched.core.values.messages import Attempt, AttemptKey, Executor, Report, TaskServices, Upcoming


class ExecutorRouter:
    """Implements the Executor protocol.

    `members` by the names that tasks use; the first is the default. Attempts without a slot (triggers and callbacks)
    that name a missing member go to the default.
    """

    def __init__(self, members: Mapping[str, Executor]) -> None:
        self.members: dict[str, Executor] = dict(members)
        self.name: str = ",".join(self.members)
        self._default = next(iter(self.members.values()))

    @property
    def slots(self) -> int:
        """The plain-function slots of all members together."""
        return sum(member.slots for member in self.members.values())

    @property
    def open_slots(self) -> int:
        """The open slots of the default member."""
        return self._default.open_slots

    @property
    def open_async_slots(self) -> int:
        """The open slots of the default member."""
        return self._default.open_async_slots

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        """Start all members, in order. If one cannot start, its error is raised; `stop` ends the others."""
        for member in self.members.values():
            await member.start(report, services)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Submit each attempt to its member, in the given order."""
        shares: dict[str | None, list[Attempt]] = {}
        for attempt in attempts:
            shares.setdefault(attempt.executor, []).append(attempt)
        for name, share in shares.items():
            self._member(name).submit(share)

    def prepare(self, upcoming: Sequence[Upcoming]) -> None:
        """Tell each member, if it prepares itself, what is expected there."""
        shares: dict[str | None, list[Upcoming]] = {}
        for each in upcoming:
            shares.setdefault(each.executor, []).append(each)
        for name, share in shares.items():
            if (prepare := getattr(self._member(name), "prepare", None)) is not None:
                prepare(share)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """Ask all members: those without the attempt do nothing."""
        await asyncio.gather(*(member.cancel(attempt, grace) for member in self.members.values()))

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Ask all members: those without the trigger do nothing."""
        for member in self.members.values():
            member.forget(triggers)

    async def stop(self, grace: float) -> None:
        """Stop all members at the same time; an error of one of them is raised when all have ended."""
        ends = await asyncio.gather(
            *(member.stop(grace) for member in self.members.values()), return_exceptions=True
        )  # fmt: skip
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def _member(self, name: str | None) -> Executor:
        return self._default if name is None else self.members.get(name, self._default)


def members_of(executor: Executor) -> Mapping[str, Executor]:
    """The members of an executor, by name; the first is the default."""
    return executor.members if isinstance(executor, ExecutorRouter) else {executor.name: executor}
