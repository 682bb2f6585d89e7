"""The forkservers of one executor: one for each user as whom its workers run, started with the first of them.

Most executors have one, for the user of `executor.run_as` or that of this process. A task with `run_as_user` has a
worker of its own, below the forkserver of that user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from aiosched.core.values.messages import Attempt, AttemptKey
from aiosched.executors.attempt.log_opening import LogFileServer
from aiosched.executors.attempt.logs import open_log
from aiosched.executors.local.forkserver_client import FORKSERVER, ForkserverClient
from aiosched.executors.local.options import LocalOptions
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.protocol import Exited
from aiosched.other_user import OtherUser, check_access, check_rights, other_user, uid_of

log: logging.Logger = logging.getLogger(__name__)


class ForkserverHost(Protocol):
    """The executor. All calls are made on the event loop."""

    def worker_forked(self, worker: int, pid: int) -> None: ...
    def worker_exited(self, exited: Exited) -> None: ...
    def forkserver_lost(self, user: str | None, ended: asyncio.Task[str]) -> None:
        """The forkserver of a user (None: of those that name none) has ended, with its workers."""


class _Listener:
    """Receives the events of one forkserver."""

    def __init__(
        self, host: ForkserverHost, user: str | None, lease_deadline: LeaseDeadline, forget: Callable[[], object]
    ) -> None:
        self.worker_forked, self.worker_exited = host.worker_forked, host.worker_exited
        self._host, self._user, self._lease_deadline, self._forget = host, user, lease_deadline, forget

    def forkserver_lost(self, ended: asyncio.Task[str]) -> None:
        self._forget()  # the next worker starts another one
        ended.add_done_callback(partial(_log_end, on_purpose=self._lease_deadline.has_passed))
        self._host.forkserver_lost(self._user, ended)


class Forkservers:
    """See the module docstring. `user` is None for workers of tasks that name none."""

    def __init__(self, options: LocalOptions, host: ForkserverHost, lease_deadline: LeaseDeadline) -> None:
        self._options, self._host, self._lease_deadline = options, host, lease_deadline
        self._config = options.for_workers()
        self._clients: dict[str | None, ForkserverClient] = {}
        self._users: dict[str | None, OtherUser | None] = {}  # those that may be used
        self._logs: LogFileServer | None = None
        if (folder := options.logs_folder) is not None:
            self._logs = LogFileServer(
                folder, lambda path: open_log(folder, path, uploaded=options.uploads_logs, readable=True)
            )

    async def start(self) -> None:
        """Start the one that every executor has. Raises ConfigError if workers cannot run as the users of settings."""
        self._users[None] = None
        if (name := self._options.run_as) is not None:
            self._users[None] = await asyncio.to_thread(self._usable, name, "executor.run_as")
        for name in sorted({name for _, name in self._options.run_as_users}):
            self._users[name] = await asyncio.to_thread(self._usable, name, "executor.run_as_users")
        self._client(None)

    def own_user(self, attempt: Attempt) -> str | None:
        """The user that an attempt needs a worker of its own for; None for most."""
        name = attempt.run_as_user
        return None if name == self._options.run_as else name

    def refusal(self, attempt: Attempt, name: str) -> str | None:
        """Why an attempt must not run as the user `name`; None if it may."""
        team = attempt.run.team
        if {(team, name), (None, name)} & self._options.run_as_users:
            return None
        if uid_of(name) in (0, os.geteuid()):
            return f"the task names the user {name!r} (run_as_user): no task runs as root or as the scheduler's user"
        whose, entry = ("", name) if team is None else (f" of the team {team!r}", f"{team}:{name}")
        return (
            f"the task names the user {name!r} (run_as_user), as whom tasks{whose} must not run here: add {entry!r} to "
            "the setting executor.run_as_users, for a scheduler that may change users"
        )

    def fork(self, link: WorkerLink, shared: int) -> socket.socket:
        """Request a worker below the forkserver of its user; see ForkserverClient. Raises OSError."""
        logs = None
        if self._users[link.user] is not None and self._logs is not None:
            logs = self._logs.serve(lambda key: _find(link, key))
        try:
            return self._client(link.user).fork(link.number, shared, is_async=link.is_async, logs=logs)
        finally:
            if logs is not None:
                logs.close()

    def signal(self, link: WorkerLink, signum: int) -> None:
        """Send a signal to a worker's process group."""
        if (client := self._clients.get(link.user)) is not None:
            client.signal(link.number, signum)

    async def close(self) -> None:
        """End all of them; they kill the remaining workers and all their processes."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    @property
    def pids(self) -> list[int]:
        """Those of their guards."""
        return [client.pid for client in self._clients.values()]

    def _client(self, user: str | None) -> ForkserverClient:
        if user not in self._clients:
            forget = partial(self._clients.pop, user, None)
            listener = _Listener(self._host, user, self._lease_deadline, forget)
            account = self._users[user]
            self._clients[user] = ForkserverClient(self._config, listener, self._lease_deadline, account)
        return self._clients[user]

    def _usable(self, name: str, setting: str) -> OtherUser:
        user = other_user(name, setting)
        check_rights(setting)
        places = self._config.places
        folders = list(map(Path, [*places.folders.values(), *places.caches.values()]))
        check_access(user, setting, folders, program=FORKSERVER)
        return user


def _log_end(ended: asyncio.Task[str], *, on_purpose: bool) -> None:
    """Log that a forkserver has ended: `on_purpose` if the scheduler's lease had ended by then."""
    if ended.cancelled():  # the loop is shutting down
        return
    if on_purpose:
        log.warning("the workers were ended: other schedulers may run their attempts after a lost lease")
    else:
        log.error("the process that workers are forked from %s; its workers are gone", ended.result())


def _find(link: WorkerLink, key: AttemptKey) -> Attempt | None:
    """The attempt that a worker runs; called in another thread."""
    found = link.attempts.get(key)
    return found or next((each for each in list(link.triggers.values()) if each.key == key), None)
