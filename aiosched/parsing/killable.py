"""A child process that can always be killed, along with everything that it started.

Lives here: forking, watching, capping its output, killing, reaping. Knows nothing of
DAG files. Runs in a supervisor: a clean process of one thread, see pool.py.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiosched.other_user import OtherUser, become, environment_of
from aiosched.parsing.clean_processes import ignore_interrupts
from aiosched.prctl import die_with_parent, inherit_orphans

NOT_DONE: Final = 70  # exit status of a child whose work raised: EX_SOFTWARE
_CHUNK: Final = 65_536
_LAST_WORDS: Final = 16_384  # bytes of output kept beyond the cap: a crash dump comes at the end
_STORM_PAUSE: Final = 0.002  # seconds between reads of discarded output: else each line costs a context switch
_TRACE_GRACE: Final = 1.0  # seconds for a child to print where it hangs
_REAP_GRACE: Final = 5.0  # seconds for killed processes to vanish; more only hangs in the kernel
_POLL: Final = 0.02  # seconds, if the kernel has no pidfd
_FIRST_FREE_FD: Final = 3

_child: int | None = None  # the current process group, for the signal handler


@dataclass(frozen=True, slots=True)
class ChildEnding:
    """How a child ended. Exactly one of `status` and `signal` is set."""

    status: int | None  # exit status
    signal: int | None
    answer: bytes
    output: bytes  # stdout and stderr: the first bytes up to the cap, then the very last ones
    lost_output: int = 0  # bytes between those two
    timed_out: bool = False
    answer_too_long: bool = False


def become_supervisor() -> None:
    """Prepare this process, which multiprocessing has started: inherit orphans, die with the parent, leave nothing."""
    parent: Any = multiprocessing.parent_process()  # not getppid(): the parent may have died during the imports
    inherit_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an application that ignores it would have its children's ends lost
    signal.signal(signal.SIGTERM, _end)
    ignore_interrupts()  # Ctrl-C is for the scheduler, which ends this process
    die_with_parent(parent.pid, signal.SIGTERM)


def run_killable(
    work: Callable[[int], None],
    *,
    timeout: float,
    max_answer: int,
    max_output: int,
    user: OtherUser | None = None,
) -> ChildEnding:
    """Run `work` in a forked child and return how it ended, with none of its processes left alive.

    `work` gets the file descriptor for its answer. The child has its own session, an empty stdin, and its stdout and
    stderr are captured. After `timeout` seconds it gets SIGABRT (faulthandler prints its stack), then it and all its
    descendants are killed. With a `user` the child runs as that one, with its home.
    """
    global _child
    answer_in, answer_out = os.pipe()
    output_in, output_out = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(work, supervisor, answer_out, output_out, user)
    child = _Child(pid)
    _child = pid
    os.close(answer_out)
    os.close(output_out)
    answer, output = _Stream(answer_in, max_answer), _Stream(output_in, max_output, tail_limit=_LAST_WORDS)
    try:
        timed_out = not _wait(child, answer, output, timeout)
        if timed_out:
            os.kill(pid, signal.SIGABRT)
            _wait(child, answer, output, _TRACE_GRACE)
        _kill_group(pid)
        status = child.reap()
        _kill_stragglers()
        answer.drain()
        output.drain()
    finally:
        _child = None
        os.close(answer_in)
        os.close(output_in)
    return ChildEnding(
        status=status if status >= 0 else None,
        signal=-status if status < 0 else None,
        answer=bytes(answer.kept),
        output=bytes(output.kept + output.tail),
        lost_output=output.lost - len(output.tail),
        timed_out=timed_out,
        answer_too_long=answer.lost > 0,
    )


@dataclass
class _Stream:
    """One end of a pipe: keeps the first `limit` bytes; counts the others and keeps the last `tail_limit` of them."""

    fd: int
    limit: int
    tail_limit: int = 0
    kept: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    lost: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """Read one available chunk; returns False if there is no more data now."""
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return False
        self.ended = not chunk
        room = max(0, self.limit - len(self.kept))
        self.kept += chunk[:room]
        self.lost += max(0, len(chunk) - room)
        self.tail = (self.tail + chunk[room:])[-self.tail_limit :] if self.tail_limit else self.tail
        return not self.ended

    def drain(self) -> None:
        """Read what is left in the pipe after the child's death."""
        while not self.ended and self.lost == 0 and self.read():
            pass


@dataclass
class _Child:
    pid: int
    status: int | None = None  # as `waitpid` gives it

    def has_ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def reap(self) -> int:
        """The exit status, or minus the signal's number."""
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self.status)


def _wait(child: _Child, answer: _Stream, output: _Stream, timeout: float) -> bool:
    """Read both streams until the child has ended or its answer is too long; False on timeout.

    Waits for the process, not for its pipes: a grandchild can hold those open forever.
    """
    deadline = time.monotonic() + timeout
    with _death_of(child.pid) as death:
        poller = select.poll()
        if death is not None:
            poller.register(death, select.POLLIN)
        streams = {s.fd: s for s in (answer, output) if not s.ended}
        for fd in streams:
            poller.register(fd, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if answer.lost:
                return True  # the caller kills it
            pause = left if death is not None else min(left, _POLL)
            ready = [fd for fd, _ in poller.poll(max(1, pause * 1000))]
            for fd in ready:
                if fd in streams:
                    streams[fd].read()
                    if streams[fd].ended:
                        poller.unregister(fd)
            if output.lost:
                time.sleep(_STORM_PAUSE)
            if death in ready or (death is None and child.has_ended()):
                return True
    return False


@contextlib.contextmanager
def _death_of(pid: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when `pid` ends; None if the system has no pidfds."""
    if sys.platform != "linux":
        yield None
        return
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def _live(work: Callable[[int], None], supervisor: int, answer: int, output: int, user: OtherUser | None) -> None:
    """The child's main function; never returns."""
    status = NOT_DONE
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        die_with_parent(supervisor)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        answer = _close_all_but(answer)
        if user is not None:
            os.environ.update(environment_of(user, {}))
            become(user.uid, user.gid, user.groups)
            die_with_parent(supervisor)  # the kernel forgets it with a change of the user
        work(answer)
        status = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # no atexit handlers, no waiting for threads


def _close_all_but(fd: int) -> int:
    """Close every descriptor except the standard ones and `fd`; returns the new number of `fd`."""
    os.dup2(fd, _FIRST_FREE_FD, inheritable=False)
    os.closerange(_FIRST_FREE_FD + 1, os.sysconf("SC_OPEN_MAX"))
    return _FIRST_FREE_FD


def _kill_group(pid: int) -> None:
    """Kill the child's session. With pidfds the child is not reaped yet, so its pid is not reused."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has no session of its own yet
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _kill_stragglers() -> None:
    """Kill and reap the descendants that left the session: this process inherited them as orphans."""
    deadline = time.monotonic() + _REAP_GRACE
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            continue
        for orphan in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        select.select([], [], [], 0.001)


def _children() -> list[int]:
    """The processes whose parent is this one. Linux only: on other systems this process does not inherit orphans."""
    me = os.getpid()
    listed = Path(f"/proc/self/task/{me}/children")
    if listed.exists():
        return [int(pid) for pid in listed.read_text().split()]
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == me:
                found.append(int(status.parent.name))
    return found


def _end(*_: object) -> None:
    """SIGTERM handler: kill the running child and exit at once."""
    if _child is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(_child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(_child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(_child, 0)
        _kill_stragglers()
    os._exit(0)
