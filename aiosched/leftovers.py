"""Finds and ends processes that were left behind on this machine.

They are found in two ways. As descendants: a process that inherits orphans (`inherit_orphans`) loses none of its own,
regardless of sessions, process groups and double forks. And by their environment: processes that a scheduler starts for
its tasks carry MARK, which identifies the scheduler's process, so that they are found even if they have no ancestors
left.

Both need /proc. Without it (macOS) nothing is found, and only process groups are ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiosched import prctl
from aiosched.scratch import remove_scratch_folders

MARK: Final = "AIOSCHED_OWNER"  # the owner of a process: see `new_mark`
COMMAND: Final = "AIOSCHED_COMMAND"  # the name of the command or attempt that it belongs to

TICK: Final = 1 / os.sysconf("SC_CLK_TCK")  # seconds: the resolution of a process's start time
_PATIENCE: Final = 5.0  # seconds for killed processes to vanish; more only hangs in the kernel
_PAUSE: Final = 0.002  # seconds between two scans
_MOST_STOPS: Final = 20  # scans in which processes found are only stopped; processes that fork faster are then killed
_numbers = itertools.count(1)
_inherits = False


class Process(NamedTuple):
    """A process as /proc shows it. `started`: in seconds of CLOCK_BOOTTIME, rounded down to a tick."""

    pid: int
    parent: int
    name: str
    has_ended: bool
    started: float


@dataclass(frozen=True)
class EndedProcesses:
    """Descriptions of the processes ended, and of those that could not be ended (for example, of another user)."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ended or self.left)

    def __add__(self, more: EndedProcesses) -> EndedProcesses:
        return EndedProcesses(self.ended + more.ended, self.left + more.left)

    def text(self, of: str) -> str:
        """The text for a log; `of` is what left them behind."""
        sentences = []
        if self.ended:
            sentences.append(f"ended processes that {of} left behind: {', '.join(self.ended)}")
        if self.left:
            sentences.append(f"{of} left processes behind that cannot be ended: {', '.join(self.left)}")
        return "; ".join(sentences)


def inherit_orphans() -> None:
    """Become the parent of descendants whose own parent ends, if the system supports that."""
    global _inherits
    with contextlib.suppress(OSError):  # processes are then found only by their environment
        _inherits = prctl.inherit_orphans()


def inherits_orphans() -> bool:
    """Whether all processes that this process started, directly or not, are found among its descendants."""
    return _inherits


def read_process(pid: int) -> Process | None:
    """A process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  hundreds at a time
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return None
    words = after.split()
    name = before.partition(b"(")[2].decode(errors="replace")
    return Process(pid, int(words[1]), name, words[0] in b"ZX", int(words[19]) * TICK)


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`, including zombies."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  hundreds at a time
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except FileNotFoundError:  # the process is gone, or the kernel was built without these files
        if _lists_children():
            return found
        return [each.pid for each in map(read_process, _all_pids()) if each is not None and each.parent == pid]
    except OSError:
        pass
    return found


def descendants_of(pids: Iterable[int]) -> list[int]:
    """All processes below these, nearest first."""
    found: dict[int, None] = {}
    generation = list(pids)
    while generation:
        generation = [child for pid in generation for child in children_of(pid) if child not in found]
        found |= dict.fromkeys(generation)
    return list(found)


def carrying(variable: str, accept: Callable[[str], bool], among: Iterable[int] | None = None) -> list[int]:
    """The processes started with an accepted value of `variable`, and their descendants, except this process.

    Processes of other users cannot be read and are not found.
    """
    me, needle = os.getpid(), f"{variable}=".encode()
    found = []
    for pid in _all_pids() if among is None else among:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                entries = file.read()
        except OSError:
            continue
        if needle in entries and pid != me:
            values = [entry[len(needle) :] for entry in entries.split(b"\0") if entry.startswith(needle)]
            if values and accept(values[-1].decode(errors="replace")):
                found.append(pid)
    return list(dict.fromkeys([*found, *(pid for pid in descendants_of(found) if pid != me)]))


def new_mark() -> str:
    """A unique value of MARK: namespace, process, start, number."""
    me = read_process(os.getpid())
    started = round(me.started / TICK) if me is not None else time.time_ns()
    return f"{_namespace()}.{os.getpid()}.{started}.{next(_numbers)}"


def owner_is_gone(mark: str) -> bool:
    """Whether the process that created a mark has ended. False for another pid namespace, where that is unknown."""
    try:
        namespace, pid, started, _ = map(int, mark.split("."))
    except ValueError:
        return False
    if namespace != _namespace():
        return False
    owner = read_process(pid)
    return owner is None or owner.has_ended or round(owner.started / TICK) != started


def end_orphans() -> EndedProcesses:
    """End processes that dead schedulers left on this machine, and remove their scratch folders.

    Processes of this process's own scheduler are spared.
    """
    mine = os.environ.get(MARK)
    ended = end(lambda: carrying(MARK, lambda mark: mark != mine and owner_is_gone(mark)))
    remove_scratch_folders(lambda mark, _: mark != mine and owner_is_gone(mark))
    return ended


def end_named(name: str) -> EndedProcesses:
    """End processes with this value of COMMAND, and reap those that this process inherits by that."""
    seen: set[int] = set()

    def find() -> list[int]:
        among = descendants_of([os.getpid()]) if _inherits else None
        found = carrying(COMMAND, lambda value: value == name, among)
        seen.update(found)
        return found

    ended = end(find)
    if _inherits:
        for pid in seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return ended


def end(find: Callable[[], Iterable[int]], patience: float = _PATIENCE) -> EndedProcesses:
    """Kill the processes that `find` finds until it finds none.

    Blocks for some milliseconds, for `patience` seconds at most. They are all stopped first, so that none of them can
    start another one.
    """
    seen: dict[int, str] = {}
    refused: dict[int, str] = {}
    deadline, looks = time.monotonic() + patience, 0
    while found := [each for each in map(read_process, find()) if each is not None and not each.has_ended]:
        if all(each.pid in refused for each in found) or time.monotonic() > deadline:
            refused |= {each.pid: seen[each.pid] for each in found if each.pid in seen}
            break
        looks += 1
        fresh = [each for each in found if each.pid not in seen]
        for each in fresh:
            seen[each.pid] = f"{each.name} (pid {each.pid})"
            if not _send(each.pid, signal.SIGSTOP):
                refused[each.pid] = seen[each.pid]
        if not fresh or looks > _MOST_STOPS:
            for each in found:
                _send(each.pid, signal.SIGKILL)
            time.sleep(_PAUSE)
    return EndedProcesses(tuple(name for pid, name in seen.items() if pid not in refused), tuple(refused.values()))


def end_children(before: float | None = None) -> EndedProcesses:
    """End all descendants of this process and reap them; with `before`, only those started before it.

    `before` is a time of `boot_time`. The resource tracker of `multiprocessing` is spared: it cleans up and ends with
    this process.
    """
    me = os.getpid()

    def roots() -> list[int]:
        there = [each for each in map(read_process, children_of(me)) if each is not None]
        return [
            each.pid
            for each in there
            if (before is None or each.started + TICK <= before) and not _is_resource_tracker(each.pid)
        ]

    def find() -> list[int]:
        return [*(found := roots()), *descendants_of(found)]

    ended = end(find)
    for pid in roots():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return ended


def reap(but: Collection[int]) -> None:
    """Reap the children of this process that have ended, except these."""
    for pid in children_of(os.getpid()):
        if pid not in but and (each := read_process(pid)) is not None and each.has_ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def boot_time() -> float:
    """The current time, on the clock of process start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def _is_resource_tracker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False


def _send(pid: int, signum: int) -> bool:
    """Send a signal; returns whether that is permitted."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _lists_children() -> bool:
    me = os.getpid()
    return os.path.exists(f"/proc/{me}/task/{me}/children")  # noqa: PTH110


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return 0
