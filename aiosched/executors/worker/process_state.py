"""What attempts change in the process of their worker: found after each of them, and put back.

Lives here: the comparison of the process with what it was. Does not live here: the things that are compared
(process_parts.py), processes that an attempt left behind (leftovers.py), descriptors 1 and 2 (worker.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from aiosched.core.values.messages import Attempt
    from aiosched.executors.attempt.logs import AttemptLog

_MOST_SUSPECTS: Final = 100


class CannotPutBack(Exception):
    """Only a new process has the state that this one had."""


class ProcessPart(NamedTuple):
    """One thing of the process.

    `read` gives its value, and `keep` the copy that later values are compared with. `changed` names what is not as it
    was, for people; empty where what is new is harmless. `put_back` may raise CannotPutBack.
    `is_set_by_imports`: what importing a DAG file makes of it is how it ought to be.
    """

    read: Callable[[], Any]
    changed: Callable[[Any, Any], str]
    put_back: Callable[[Any], None]
    keep: Callable[[Any], Any] = lambda value: value
    is_set_by_imports: bool = False


class ProcessChanges(NamedTuple):
    """What an attempt has changed, in words."""

    put_back: list[str]
    remaining: list[str]  # that only a new process is without


class ProcessState:
    """How the process was when it began, with what imports have made of it since."""

    def __init__(self, parts: Sequence[ProcessPart]) -> None:
        self._parts = tuple(parts)
        self._reads = [part.read for part in parts]
        self._was = [part.keep(part.read()) for part in parts]

    def accept_imports(self) -> None:
        """A DAG file was imported: what it set stays, as other attempts of it count on that."""
        for position, part in enumerate(self._parts):
            if part.is_set_by_imports:
                self._was[position] = part.keep(part.read())

    def differs(self) -> bool:
        """Whether anything at all is not as it was. Costs about ten microseconds."""
        try:
            return [read() for read in self._reads] != self._was
        except Exception:  # raised by an object that a task has put there
            return True

    def changes(self) -> list[str]:
        """What is not as it was, in words."""
        return [what for _, _, what in self._changed()]

    def tidy(self, logs: Sequence[AttemptLog]) -> bool:
        """Put back what the attempts of these logs have changed, and log it; False when something stays changed."""
        if not self.differs():
            return True
        done, remaining = self.put_back()
        for log in logs:
            if done:
                log.line("INFO", "aiosched", f"left changed, and put back: {'; '.join(done)}")
            if remaining:
                what = "; ".join(remaining)
                log.line("WARNING", "aiosched", f"left changed for good: {what}; the worker process is replaced")
        return not remaining

    def put_back(self) -> ProcessChanges:
        """Make everything as it was, as far as that is possible. What remains changed is found once."""
        done: list[str] = []
        remaining: list[str] = []
        for position, part, what in self._changed():
            try:
                part.put_back(self._was[position])
            except Exception as error:
                remaining.append(what if isinstance(error, CannotPutBack) else f"{what} ({error})")
                self._was[position] = part.keep(part.read())
            else:
                done.append(what)
        return ProcessChanges(done, remaining)

    def _changed(self) -> list[tuple[int, ProcessPart, str]]:
        found = []
        for position, part in enumerate(self._parts):
            was, now = self._was[position], part.read()
            if _are_equal(was, now):
                continue
            if what := part.changed(was, now):
                found.append((position, part, what))
            else:
                self._was[position] = part.keep(now)
        return found


def _are_equal(was: Any, now: Any) -> bool:
    try:
        return bool(was == now)
    except Exception:
        return False


class SharedProcessState:
    """As ProcessState, of a process in which many attempts run at a time.

    A change that is found while others run may be intended by one of them, for a time. So it is checked again when all
    that ran when it was found have ended. If it is still there, it was left behind.
    """

    def __init__(self, parts: Sequence[ProcessPart], log_of: Callable[[Attempt], AttemptLog]) -> None:
        self.state = ProcessState(parts)
        self._log_of = log_of
        self._found: list[str] = []
        self._found_at = 0.0
        self._suspects: list[Attempt] = []  # that have ended since then, at most _MOST_SUSPECTS

    def after(self, ended: Sequence[Attempt], oldest: float | None, now: float) -> bool:
        """Some attempts have ended; of those that run the oldest one began at `oldest` (None: none runs).

        Instants are of one clock. False when something stays changed, so that the process is to be replaced.
        """
        if not self.state.differs() or not (changes := self.state.changes()):
            self._forget()
            return True
        if not any(what in changes for what in self._found):
            self._forget()
            self._found, self._found_at = changes, now
        self._suspects = [*self._suspects, *ended][:_MOST_SUSPECTS]
        if oldest is not None and oldest <= self._found_at:
            return True
        logs = [self._log_of(attempt) for attempt in self._suspects]
        if oldest is None:
            is_clean = self.state.tidy(logs)
        else:
            is_clean = False
            what = "; ".join(each for each in self._found if each in changes)
            for log in logs:
                log.line("WARNING", "aiosched", f"left changed: {what}, by this attempt or one that ran beside it")
        for log in logs:
            log.close()
        self._forget()
        return is_clean

    def _forget(self) -> None:
        self._found, self._suspects = [], []
