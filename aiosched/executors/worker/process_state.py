"""Detects and reverts changes that attempts make to their worker's process, after each attempt.

Lives here: the comparison of the process with its former state. Does not live here: the compared parts
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
    """The former state can only be restored by a new process."""


class ProcessPart(NamedTuple):
    """One part of the process state.

    `read` returns its value, and `keep` the copy that later values are compared with. `changed` describes the changes;
    empty if they are harmless. `put_back` can raise CannotPutBack. `is_set_by_imports`: changes by importing a DAG file
    are accepted as the new state.
    """

    read: Callable[[], Any]
    changed: Callable[[Any, Any], str]
    put_back: Callable[[Any], None]
    keep: Callable[[Any], Any] = lambda value: value
    is_set_by_imports: bool = False


class ProcessChanges(NamedTuple):
    """Descriptions of an attempt's changes."""

    put_back: list[str]
    remaining: list[str]  # that only a new process removes


class ProcessState:
    """The initial state of the process, updated with changes made by imports."""

    def __init__(self, parts: Sequence[ProcessPart]) -> None:
        self._parts = tuple(parts)
        self._reads = [part.read for part in parts]
        self._was = [part.keep(part.read()) for part in parts]

    def accept_imports(self) -> None:
        """Accept changes made by importing a DAG file, since its attempts rely on them."""
        for position, part in enumerate(self._parts):
            if part.is_set_by_imports:
                self._was[position] = part.keep(part.read())

    def differs(self) -> bool:
        """Whether anything has changed. Takes about ten microseconds."""
        try:
            return [read() for read in self._reads] != self._was
        except Exception:  # raised by an object that a task put there
            return True

    def changes(self) -> list[str]:
        """Descriptions of the current changes."""
        return [what for _, _, what in self._changed()]

    def tidy(self, logs: Sequence[AttemptLog]) -> bool:
        """Revert the changes of the attempts of these logs, and log them; False if something remains changed."""
        if not self.differs():
            return True
        done, remaining = self.put_back()
        for log in logs:
            if done:
                log.line("INFO", "aiosched", f"changed and restored: {'; '.join(done)}")
            if remaining:
                what = "; ".join(remaining)
                log.line("WARNING", "aiosched", f"changed permanently: {what}; the worker process is replaced")
        return not remaining

    def put_back(self) -> ProcessChanges:
        """Restore the former state as far as possible. Remaining changes are reported once."""
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
    """Like ProcessState, for a process in which many attempts run at a time.

    A change found while others run may be a temporary change by one of them. So it is checked again when all attempts
    that were running have ended. If it is still there, it was left behind.
    """

    def __init__(self, parts: Sequence[ProcessPart], log_of: Callable[[Attempt], AttemptLog]) -> None:
        self.state: ProcessState = ProcessState(parts)
        self._log_of = log_of
        self._found: list[str] = []
        self._found_at = 0.0
        self._suspects: list[Attempt] = []  # ended since then, at most _MOST_SUSPECTS

    def after(self, ended: Sequence[Attempt], oldest: float | None, now: float) -> bool:
        """Check after some attempts have ended; the oldest running attempt began at `oldest` (None: none runs).

        All times are of the same clock. Returns False if something remains changed, so that the process has to be
        replaced.
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
                log.line("WARNING", "aiosched", f"changed: {what}, by this attempt or one that ran beside it")
        for log in logs:
            log.close()
        self._forget()
        return is_clean

    def _forget(self) -> None:
        self._found, self._suspects = [], []
