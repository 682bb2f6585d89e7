"""A process below a guard (worker/guard.py), which leaves no process behind, whichever of them is killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from aiosched import leftovers
from aiosched.config.secret_environment import without_secrets
from aiosched.executors.worker.processes import describe_exit
from aiosched.logs import claimed_output
from aiosched.other_user import OtherUser, command_as, environment_of
from aiosched.scratch import remove_scratch_folders

_PATIENCE: Final = 5.0  # seconds for all processes to end


class GuardedProcess:
    """Runs `python -m MODULE CONTROL DESCRIPTORS… LIFELINE`, which gives its last descriptor to `stand_guard`.

    With a `user` it runs as that one, who can neither signal nor read this process. Secret settings are not in its
    environment. What it prints is logged as `output`.

    It is started by exec, so the host process never forks itself, and its end is seen on the socket `control`, so no
    signal handler is needed in the host.
    """

    def __init__(
        self, module: str, descriptors: Sequence[int] = (), *, output: str, user: OtherUser | None = None
    ) -> None:
        self._mark = leftovers.new_mark()
        self.control, theirs = socket.socketpair()
        self.control.settimeout(None)  # a library may have set a default timeout
        try:
            self._lifeline, end = socket.socketpair()
        except BaseException:
            self.control.close()
            theirs.close()
            raise
        passed = (theirs.fileno(), *descriptors, end.fileno())
        command = [sys.executable, "-P", "-m", module, *map(str, passed)]
        environment = {**without_secrets(os.environ), leftovers.MARK: self._mark}
        try:
            with claimed_output(output) as stream:
                self._guard = subprocess.Popen(
                    command if user is None else command_as(user, command),
                    env=environment if user is None else environment_of(user, environment),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    pass_fds=passed,
                    start_new_session=True,
                )
        except BaseException:
            self.control.close()
            self._lifeline.close()
            raise
        finally:
            theirs.close()
            end.close()

    @property
    def pid(self) -> int:
        """The pid of the guard, the process's parent."""
        return self._guard.pid

    def end(self) -> None:
        """Have the guard end the process and all that it has started, without waiting for it."""
        self._lifeline.shutdown(socket.SHUT_RDWR)

    def await_end(self) -> str:
        """Wait for the guard, which ends last; returns how the process ended.

        Blocks. The guard is killed if that takes too long. Processes that it then could not end are found by their
        mark.
        """
        try:
            status = self._guard.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            status = self._guard.wait()
        self._lifeline.close()
        leftovers.end(lambda: leftovers.carrying(leftovers.MARK, lambda mark: mark == self._mark))
        remove_scratch_folders(lambda mark, _: mark == self._mark)
        return describe_exit(status)
