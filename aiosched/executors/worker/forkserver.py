"""The server process that forks workers: `python -m aiosched.executors.worker.forkserver FD TRUST LIFELINE`.

It has only imported what runners need: it has no database connection, no threads, and no socket of the scheduler except
the one for requests. So a worker starts in milliseconds and inherits nothing. It reports a worker's end as soon as none
of its processes is left: the forkserver inherits processes that a worker started as orphans, and kills them. It ends
all workers when the scheduler is gone (its socket closes), when the scheduler's lease has expired (lease_deadline.py)
or when it is told to stop. If it is killed itself, its guard does all that (guard.py).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
from typing import Final

from aiosched import leftovers
from aiosched.executors.attempt.log_opening import RemoteLogFiles
from aiosched.executors.worker.direct_output import DirectOutput
from aiosched.executors.worker.guard import stand_guard
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.processes import signal_group
from aiosched.executors.worker.protocol import Exited, Fork, Forked, FrameReader, FromForkserver, Setup, Signal, frame
from aiosched.executors.worker.protocol import WorkerConfig as Config
from aiosched.prctl import die_first_for_memory, die_with_parent
from aiosched.scratch import remove_scratch_folders

_READ: Final = 65_536
_MOST_FDS: Final = 64  # received with one read
_LOOK_EVERY: Final = 200.0  # milliseconds between two looks at the lease
_OURS: Final = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})  # signals that this process handles


class Forkserver:
    """Forks workers on request. Single-threaded and blocking on purpose: forking stays safe."""

    def __init__(self, control: socket.socket, lease_deadline: LeaseDeadline) -> None:
        self._control, self._lease_deadline = control, lease_deadline
        self._config: Config | None = None
        self._workers: dict[int, int] = {}  # pid -> worker number
        self._outputs: dict[int, DirectOutput] = {}  # pid -> that of a worker for plain functions
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def serve(self) -> None:
        """Serve until the scheduler's side of the socket closes, or the scheduler's lease has expired."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        reader, passed = FrameReader(), list[int]()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._workers and self._lease_deadline.has_passed:
                return
            if self._wake_read in ready:
                os.read(self._wake_read, _READ)
                self._reap()
            if self._control.fileno() in ready:
                try:
                    data, fds, _, _ = socket.recv_fds(self._control, _READ, _MOST_FDS)
                except ConnectionError:
                    return
                if not data:
                    return
                passed += fds
                for message in reader.feed(data):
                    match message:
                        case Setup(config, path):
                            self._config = config
                            sys.path += [entry for entry in path if entry not in sys.path]
                        case Fork(worker, is_async, has_logs):
                            number = 3 if has_logs else 2
                            self._fork(worker, is_async, passed[:number])
                            del passed[:number]
                        case Signal(worker, signum):
                            self._signal(worker, signum)

    def end(self) -> None:
        """Kill every worker with all its processes, and wait for them."""
        for pid in self._workers:
            signal_group(pid, signal.SIGKILL)
        me = os.getpid()
        leftovers.end(lambda: leftovers.descendants_of([me]))
        for pid in self._workers:
            os.waitpid(pid, 0)

    def _patience(self) -> float | None:
        """Milliseconds until the lease is to be looked at; None while there is nothing to end.

        Nobody wakes this process when the lease is set or becomes shorter, so it looks now and then.
        """
        if not self._workers:
            return None
        until = self._lease_deadline.until
        return max(0.0, min((until - time.monotonic()) * 1000, _LOOK_EVERY)) if until else _LOOK_EVERY

    def _fork(self, worker: int, is_async: bool, passed: list[int]) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)  # the child must not run this process's handlers
        output: DirectOutput | None = None
        try:
            output = None if is_async else DirectOutput()
            pid = os.fork()
            if pid == 0:
                self._become_worker(output, *passed)
        except OSError as error:
            if output is not None:
                output.close()
            self._send(Exited(worker, None, f"no worker process can be started: {error}"))
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
            for fd in passed:
                os.close(fd)
        self._workers[pid] = worker
        if output is not None:
            self._outputs[pid] = output
        self._send(Forked(worker, pid))

    def _become_worker(self, output: DirectOutput | None, fd: int, shared: int, logs: int | None = None) -> None:
        code = 70
        try:
            parent = os.getppid()
            os.setsid()
            leftovers.inherit_orphans()
            signal.set_wakeup_fd(-1)
            for signum in _OURS:
                signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
            die_with_parent(parent)
            die_first_for_memory()
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._control.close()
            for other in self._outputs.values():
                other.close()
            for mine in (fd, shared, *(() if logs is None else (logs,))):
                os.set_inheritable(mine, False)  # else descriptors received over a socket are inherited
            assert self._config is not None, "Setup comes first"
            log_files = None if logs is None else RemoteLogFiles(socket.socket(fileno=logs))
            given = (socket.socket(fileno=fd), shared, self._config, self._lease_deadline, log_files)
            if output is None:
                from aiosched.executors.worker.async_worker import run_worker as run_async

                run_async(*given)
            else:
                from aiosched.executors.worker.worker import run_worker

                run_worker(*given, output)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _signal(self, worker: int, signum: int) -> None:
        for pid, number in self._workers.items():
            if number == worker and not signal_group(pid, signum):
                os.kill(pid, signum)

    def _reap(self) -> None:
        """Report the workers that have ended, once their leftover processes have ended, too."""
        exits: dict[int, tuple[int, int]] = {}  # pid -> worker number, exit code
        for pid in list(self._workers):
            if sys.platform != "darwin":
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    continue
                signal_group(pid, signal.SIGKILL)  # before the wait: until then the pid cannot be reused
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                exits[pid] = self._workers.pop(pid), os.waitstatus_to_exitcode(status)
        left = leftovers.end(self._orphans)
        leftovers.reap(but=self._workers)
        if exits:
            mine = os.environ.get(leftovers.MARK)
            remove_scratch_folders(lambda mark, pid: mark == mine and pid in exits)
        for pid, (worker, code) in exits.items():
            output = self._output_of(pid)
            self._send(Exited(worker, code, left=left.text("the worker process") or None, output=output))

    def _output_of(self, pid: int) -> bytes:
        """What a worker has written last; it has ended."""
        if (output := self._outputs.pop(pid, None)) is None:
            return b""
        try:
            return output.rest()
        except OSError:  # it costs no other worker
            return b""
        finally:
            output.close()

    def _orphans(self) -> list[int]:
        """The processes of workers that have ended. Live workers keep their own orphans."""
        mine = [pid for pid in leftovers.children_of(os.getpid()) if pid not in self._workers]
        return [*mine, *leftovers.descendants_of(mine)]

    def _send(self, message: FromForkserver) -> None:
        try:
            self._control.sendall(frame(message))
        except OSError:
            return  # the scheduler is gone: the next read detects it


def main(fd: int, lease_deadline: int, lifeline: int) -> None:
    """Serve on the inherited socket `fd`, while the inherited file `lease_deadline` says that the scheduler is alive.

    A guard remains as its parent, and detects through the inherited socket `lifeline` when the scheduler is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stand_guard(lifeline)
    leftovers.inherit_orphans()
    import aiosched.authoring.decorators.taskflow  # imported by nearly every DAG file
    import aiosched.executors.worker.async_worker
    import aiosched.executors.worker.worker  # noqa: F401  preloaded for all workers

    gc.collect()
    gc.freeze()
    server = Forkserver(socket.socket(fileno=fd), LeaseDeadline(lease_deadline))
    try:
        server.serve()
    finally:
        server.end()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
