"""Ends leftover processes when others were killed: as the forkserver's parent, or as a watcher beside a host.

    scheduler ── guard ── forkserver ── workers   `stand_guard`, for the local executor
    host ── guard                                 `python -m aiosched.executors.worker.guard FD TRUST MARK`, for inline

As the parent of a forkserver it inherits its orphans and ends all of them when the forkserver or the scheduler is gone.
Beside a host, which starts the commands of its tasks itself, it receives their process groups and ends them when the
host is gone or its lease has expired. It does nothing else and imports little, so that it is unlikely to fail or to be
killed for its memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Final, NoReturn

from aiosched import leftovers
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.processes import signal_group
from aiosched.prctl import die_with_parent

_READ: Final = 65_536
_NAME: Final = b"aiosched-guard"  # at most 15 bytes: shown by `ps -o comm` and `top`
_SECOND_SCAN: Final = 0.1  # seconds; a command that its host was just starting has its mark by then


def stand_guard(lifeline: int) -> None:
    """Fork: the child returns and dies with this process; this process guards it and never returns.

    The other end of `lifeline` belongs to the scheduler: when it closes, all processes are ended.
    """
    leftovers.inherit_orphans()
    scheduler, guard = os.getppid(), os.getpid()
    wake, written = _wake_on(signal.SIGCHLD, signal.SIGTERM)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, _exit_once)
        for fd in (lifeline, wake, written):
            os.close(fd)
        die_with_parent(guard, signal.SIGTERM)
        return
    try:
        _keep_only(lifeline, wake, written)
        _set_name()
        die_with_parent(scheduler, signal.SIGTERM)  # in case another process also holds the other end
        _end_like(_watch_child(child, lifeline, wake))
    finally:
        os._exit(70)


def _watch_child(child: int, lifeline: int, wake: int) -> int:
    """Wait for the end of the child or of the scheduler, end all processes, and return the child's wait status."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(wake, select.POLLIN)
    status: int | None = None
    while status is None:
        ready = {fd for fd, _ in poll.poll()}
        signals = os.read(wake, _READ) if wake in ready else b""
        if lifeline in ready or signal.SIGTERM in signals:
            break
        leftovers.reap(but={child})
        gone, ended = os.waitpid(child, os.WNOHANG)
        if gone:
            status = ended
    if status is None and sys.platform != "linux":  # it then ends its workers itself, by their process groups
        os.kill(child, signal.SIGTERM)
        status = os.waitpid(child, 0)[1]
    me = os.getpid()
    leftovers.end(lambda: leftovers.descendants_of([me]))
    return os.waitpid(child, 0)[1] if status is None else status


def _end_like(status: int) -> NoReturn:
    """Exit like the child: by the same signal, or with the same exit code."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if (number := os.WTERMSIG(status)) not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 70)


class Watcher:
    """The guard beside a host: keeps the process groups of its commands, and ends them."""

    def __init__(self, host: socket.socket, lease_deadline: LeaseDeadline, mark: str) -> None:
        self._host, self._lease_deadline, self._mark = host, lease_deadline, mark
        self._groups: set[int] = set()
        self._rest = b""

    def serve(self, wake: int) -> None:
        """Serve until the host is gone, then end the remaining processes."""
        poll = select.poll()
        poll.register(self._host, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if wake in ready or (self._host.fileno() in ready and not self._receive()):
                break
            if self._patience() == 0:
                self._end()
        self._end()
        time.sleep(_SECOND_SCAN)
        self._end()

    def _patience(self) -> float | None:
        """Milliseconds until other schedulers can run the host's attempts; None while it runs none."""
        until = self._lease_deadline.until
        return max(0.0, (until - time.monotonic()) * 1000) if until and self._groups else None

    def _receive(self) -> bool:
        """Read `+GROUP` (started) and `-GROUP` (ended), one per line; False if the host is gone."""
        try:
            data = self._host.recv(_READ)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            group = int(line[1:])
            (self._groups.add if line.startswith(b"+") else self._groups.discard)(group)
        return bool(data)

    def _end(self) -> None:
        for group in self._groups:
            signal_group(group, signal.SIGKILL)
        self._groups.clear()
        leftovers.end(lambda: leftovers.carrying(leftovers.MARK, lambda mark: mark == self._mark))


def _exit_once(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the shutdown is not interrupted again
    sys.exit(0)


def _wake_on(*signals: signal.Signals) -> tuple[int, int]:
    """A descriptor that becomes readable on each of these signals and yields its number; and its other end."""
    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for each in signals:
        signal.signal(each, lambda *_: None)
    return read, write


def _keep_only(*descriptors: int) -> None:
    """Close inherited descriptors, so that the peer of each is notified when its owner closes it."""
    listed = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112
    for fd in map(int, os.listdir(listed)):  # noqa: PTH208
        if fd not in (0, 1, 2, *descriptors):
            with contextlib.suppress(OSError):
                os.close(fd)


def _set_name() -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:  # noqa: PTH123
        file.write(_NAME)


def main(fd: int, lease_deadline: int, mark: str) -> None:
    """Watch over the host at the other end of the inherited socket `fd`."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake, _ = _wake_on(signal.SIGTERM)
    _set_name()
    die_with_parent(parent, signal.SIGTERM)  # in case another process also holds the other end
    Watcher(socket.socket(fileno=fd), LeaseDeadline(lease_deadline), mark).serve(wake)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
