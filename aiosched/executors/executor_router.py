"""Several executors as one: each attempt goes to the one that its task names, or to the first.

Does not live here: who fits into which (scheduler/slots/claiming.py asks the members for their open
slots), how a setting becomes executors (scheduler/executor_choice.py).
Source: the semantics reference, section 19.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiosched.core.values.messages import Attempt, AttemptKey, Executor, Report, TaskServices


class ExecutorRouter:
    """Implements the Executor protocol. `members` by the names that tasks use; the first is the default.

    What holds no slot (triggers and callbacks) and names a member that is not there goes to the default.
    """

    def __init__(self, members: Mapping[str, Executor]) -> None:
        self.members = dict(members)
        self.name = ",".join(self.members)
        self._default = next(iter(self.members.values()))

    @property
    def slots(self) -> int:
        """Plain-function attempts that all members together take."""
        return sum(member.slots for member in self.members.values())

    @property
    def open_slots(self) -> int:
        """What the default would take now."""
        return self._default.open_slots

    @property
    def open_async_slots(self) -> int:
        """What the default would take now."""
        return self._default.open_async_slots

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        """Start all members, in order. When one cannot start, its error is raised; `stop` ends the others."""
        for member in self.members.values():
            await member.start(report, services)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Hand each attempt to its member, in the order given."""
        shares: dict[str | None, list[Attempt]] = {}
        for attempt in attempts:
            shares.setdefault(attempt.executor, []).append(attempt)
        for name, share in shares.items():
            self._member(name).submit(share)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """Ask all: those that do not have the attempt do nothing."""
        await asyncio.gather(*(member.cancel(attempt, grace) for member in self.members.values()))

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Ask all: those that do not have a trigger do nothing."""
        for member in self.members.values():
            member.forget(triggers)

    async def adopt(self, attempts: Sequence[AttemptKey]) -> Sequence[AttemptKey]:
        """Those that any member still has."""
        alive = await asyncio.gather(*(member.adopt(attempts) for member in self.members.values()))
        return [key for share in alive for key in share]

    async def stop(self, grace: float) -> None:
        """Stop all at the same time; what one of them raises is raised when all have ended."""
        ends = await asyncio.gather(
            *(member.stop(grace) for member in self.members.values()), return_exceptions=True
        )  # fmt: skip
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def _member(self, name: str | None) -> Executor:
        return self._default if name is None else self.members.get(name, self._default)


def members_of(executor: Executor) -> Mapping[str, Executor]:
    """The executors behind one, by name; the first is the default."""
    return executor.members if isinstance(executor, ExecutorRouter) else {executor.name: executor}
