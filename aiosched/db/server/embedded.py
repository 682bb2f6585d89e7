"""The embedded PostgreSQL, from a wheel or of this machine: starting, sharing, reattaching and stopping.

One server serves all processes that use one data directory. Each of them holds a shared lock on `<data
directory>.users` while it uses the server; the kernel releases that lock however the process ends, so the last user can
detect that it is the last. Starting and stopping take the exclusive lock `<data directory>.lock`. The server is a
daemon in its own session: neither Ctrl-C in the terminal nor the death of the process that started it ends it. If all
its users are killed, the next start attaches to it, or its keeper ends it some seconds later (embedded_keeper.py).

It listens on a Unix socket only, in a folder that no other user can enter. Its user account and the location of its
socket are chosen in embedded_host.py, its programs in installations.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final
from urllib.parse import quote

from aiosched.db.server.embedded_host import Account, claim_folder, place_for, programs, run_as, socket_folder
from aiosched.db.server.installations import choose
from aiosched.db.server.postmaster import (
    SUPERUSER,
    FolderId,
    Postmaster,
    ServerAnswer,
    ask,
    end_process,
    folder_id,
    is_alive,
    last_complaint,
    last_lines,
    read_postmaster,
    runs_on,
    tail,
    wait_until_gone,
)
from aiosched.errors import DatabaseError, UnsupportedDatabase

log: logging.Logger = logging.getLogger(__name__)

DATABASE: Final = "aiosched"

OPTIONS: Final = MappingProxyType(
    {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "max_wal_size": "2GB",
        "min_wal_size": "128MB",
        "wal_compression": "on",  # pglz: the wheel is built without lz4
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        # small hot tables: clean often, in small steps, without throttling
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_vacuum_threshold": "500",
        "autovacuum_analyze_scale_factor": "0.05",
        "autovacuum_vacuum_cost_delay": "0",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        "log_autovacuum_min_duration": "-1",
        "logging_collector": "off",
    }
)

# For tests: a machine crash can lose all data.
NOT_DURABLE: Final = MappingProxyType(
    {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
)

_INITDB: Final = (
    "--username=" + SUPERUSER,
    "--auth=trust",  # anyone who can enter the socket folder can log in
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    "--no-sync",  # synced in one go afterwards
)

_KEEPER: Final = Path(__file__).with_name("embedded_keeper.py")

_BUILTIN: Final = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")  # sorts as C, and knows letters
_BUILTIN_SINCE: Final = 17

START_SECONDS: Final = 300.0  # recovery after a crash can take a while
_STOP_SECONDS: Final = 60.0
_LOCK_SECONDS: Final = 330.0
LOG_BYTES: Final = 16 * 1024 * 1024  # a bigger log is renamed at the next start


class ServerState(Enum):
    """The state of a server that this process uses."""

    RUNS = "runs"
    ENDED = "has ended"
    FOLDER_GONE = "its folder was renamed or removed"


def embedded_data_dir(home: Path) -> Path:
    """The data directory of the embedded server of an aiosched home."""
    return home / "pg"


def embedded_dsn(home: Path, *, database: str = DATABASE) -> str | None:
    """The DSN of the running embedded server of `home`, or None if it is not running. Does not start it."""
    data_dir = embedded_data_dir(home).absolute()
    with _named_errors(data_dir):
        found = read_postmaster(data_dir)
        return _dsn(found, database) if found is not None and ask(found.socket) is ServerAnswer.READY else None


class _StartCancelled(Exception):
    """Ends the thread of a start that nobody waits for any more."""


class EmbeddedPostgres:
    """One process's use of the server on `data_dir`.

    `start` creates what is missing (data directory, server, database) and returns the DSN; `stop` ends the server
    unless another process (or another object) still uses it. Both raise DatabaseError with the reason and the last
    lines of the server's log. A start that is cancelled stops what it has started before the cancellation goes on.
    `binaries`: as the setting `database.embedded_binaries`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        database: str = DATABASE,
        options: Mapping[str, str] | None = None,
        binaries: str | None = None,
    ) -> None:
        self.data_dir: Path = data_dir.absolute()
        self._binaries = binaries
        self.database = database
        self.options: dict[str, str] = {**OPTIONS, **({} if durable else NOT_DURABLE), **(options or {})}
        self._users: IO[Any] | None = None
        self._server: Postmaster | None = None  # since the last start
        self._folder: FolderId | None = None  # of the data directory then
        self._turn = threading.Lock()  # a stop waits for a start that another thread is at
        self._cancelled = threading.Event()  # of the start under way

    async def start(self) -> str:
        """Start the server or join the running one; returns the DSN of its database. Blocking work runs in a thread."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self.start_blocking, cancelled)
        except asyncio.CancelledError:
            cancelled.set()
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop using the server; its last user shuts it down and waits until it is gone."""
        await asyncio.to_thread(self.stop_blocking)

    async def __aenter__(self) -> str:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def _place(self) -> Path:
        """Where the data directory really is: the server's account can perhaps not pass the link to it."""
        return self.data_dir.readlink() if self.data_dir.is_symlink() else self.data_dir

    @property
    def log_file(self) -> Path:
        return self.data_dir / "server.log"

    def start_blocking(self, cancelled: threading.Event | None = None) -> str:
        """`start` for callers without an event loop; ends soon after `cancelled` is set."""
        with self._turn, _named_errors(self.data_dir):
            self._cancelled = cancelled or threading.Event()
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
            with self._exclusively(self._pause):
                self._pause(0.0)
                server = self._server = self._running() or self._launch()
                self._folder = folder_id(self.data_dir)
                if self._users is None:
                    self._users = _open_lock(self._sibling("users"))
                    fcntl.flock(self._users, fcntl.LOCK_SH)
        return _dsn(server, self.database)

    def stop_blocking(self) -> None:
        """`stop` for callers without an event loop. Does nothing if this object has not started."""
        with self._turn:
            if self._users is None:
                return
            if self.check() is ServerState.FOLDER_GONE:
                self._leave()
                self._end_stray()
                return
            with _named_errors(self.data_dir), self._exclusively(time.sleep):
                self._leave()
                if self._is_unused():
                    self._shut_down()

    def check(self) -> ServerState:
        """The state of the server that this object started or joined. Takes well under a millisecond."""
        if folder_id(self.data_dir) != self._folder or not (self.data_dir / "PG_VERSION").exists():
            return ServerState.FOLDER_GONE
        for server in (read_postmaster(self.data_dir), self._server):  # another process may have restarted it
            if server is not None and runs_on(server.pid, self._folder, self._place):
                return ServerState.RUNS
        # If it runs in another container that shares the folder, its process is not visible here.
        found = read_postmaster(self.data_dir)
        return (
            ServerState.RUNS if found is not None and ask(found.socket) is not ServerAnswer.NONE else ServerState.ENDED
        )

    def last_lines(self) -> str:
        """The end of the server's log, on one line."""
        return last_lines(tail(self.log_file))

    def _leave(self) -> None:
        users, self._users = self._users, None
        if users is not None:
            with users:
                fcntl.flock(users, fcntl.LOCK_UN)  # also releases the lock inherited by a forked child

    # -- who uses it ---------------------------------------------------------------------------

    def _sibling(self, suffix: str) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.{suffix}")

    @contextlib.contextmanager
    def _exclusively(self, pause: Callable[[float], None]) -> Iterator[None]:
        with _open_lock(self._sibling("lock")) as lock:
            deadline = time.monotonic() + _LOCK_SECONDS
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise DatabaseError(
                        f"Another process has been starting or stopping the server on {self.data_dir} "
                        f"for {_LOCK_SECONDS:.0f} s. Look at {self.log_file}, end that process, then try again."
                    )
                pause(0.01)
            yield

    def _is_unused(self) -> bool:
        with _open_lock(self._sibling("users")) as users:
            return _try_lock(users)

    # -- starting ------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        """Wait, unless the start is cancelled: then raise."""
        if self._cancelled.wait(seconds):
            raise _StartCancelled

    def _running(self) -> Postmaster | None:
        """The server that already runs on the data directory, once it is ready; None if there is none.

        If a server process exists but does not answer, wait for it: it is starting or stopping.
        """
        deadline = time.monotonic() + START_SECONDS
        while (found := read_postmaster(self.data_dir)) is not None:
            match ask(found.socket):
                case ServerAnswer.READY:
                    log.debug("attaching to the PostgreSQL that runs on %s, pid %s", self.data_dir, found.pid)
                    return found
                case ServerAnswer.NONE if not runs_on(found.pid, folder_id(self.data_dir), self._place):
                    return None
            if time.monotonic() > deadline:
                raise self._failed(f"has taken no connections for {START_SECONDS:.0f} s")
            self._pause(0.01)
        return None

    def _launch(self) -> Postmaster:
        account = Account.for_data(self.data_dir)
        made_by = self._made_by()
        installation = choose(self._binaries, self.data_dir, made_by)
        bin_folder = programs(account, installation.folder)
        if made_by is None:
            self._initialise(account, bin_folder, installation.major)
        claim_folder(self._place, account)
        folder = socket_folder(self._place, account)
        self._clear(folder)
        self._rotate_log()
        deadline = time.monotonic() + 10.0
        while True:
            self._pause(0.0)
            log_size = self.log_file.stat().st_size if self.log_file.exists() else 0
            pid = self._spawn(account, bin_folder, folder)
            try:
                self._keep(pid)
                return self._wait_until_ready(pid)
            except _StartCancelled:
                # not SIGINT: the shell that has started it has it ignore that, until it has set up its own handling
                end_process(pid, {signal.SIGTERM: 5.0, signal.SIGQUIT: 5.0, signal.SIGKILL: 5.0})
                raise
            except DatabaseError:
                said = tail(self.log_file, since=log_size)
                # some backends of a killed server are still exiting
                if "pre-existing shared memory block" in said and time.monotonic() < deadline:
                    self._pause(0.1)
                    continue
                raise

    def _clear(self, folder: Path) -> None:
        """Remove leftovers of a killed server that would make a start fail.

        Never removes a pid file with content: PostgreSQL uses it to find processes of the dead server that still run.
        """
        pid_file = self.data_dir / "postmaster.pid"
        if pid_file.exists() and not pid_file.stat().st_size:  # it was killed between creating and writing it
            pid_file.unlink()
        for lock in folder.glob(".s.PGSQL.*.lock"):
            listening = lock.with_suffix("")
            if ask(listening) is ServerAnswer.NONE:
                lock.unlink(missing_ok=True)
                listening.unlink(missing_ok=True)

    def _made_by(self) -> int | None:
        """The major version that made the data; None if there is none yet."""
        marker = self.data_dir / "PG_VERSION"
        if marker.exists():
            found = marker.read_text().strip()
            if not found.isdecimal():
                raise UnsupportedDatabase(f"{marker} says {found!r}, which is no version. Restore the folder.")
            return int(found)
        if self.data_dir.is_dir() and any(self.data_dir.iterdir()):
            raise DatabaseError(
                f"{self.data_dir} is not empty and not a PostgreSQL data directory. "
                "Choose another --home, or move the folder away."
            )
        return None

    def _initialise(self, account: Account, bin_folder: Path, major: int) -> None:
        """Create the data directory next to its final path and rename it: it is complete or absent.

        If the account cannot get to its path, it is elsewhere, and a link at its path.
        """
        place = place_for(self.data_dir, account)
        fresh = place.with_name(f"{place.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        claim_folder(fresh, account)
        try:
            # initdb gets none of our options, so a small /dev/shm or a low limit fails here with its own message
            initdb = str(bin_folder / "initdb")
            run_as(account, [initdb, *_INITDB, *(_BUILTIN if major >= _BUILTIN_SINCE else ()), "-D", str(fresh)])
            with (fresh / "postgresql.conf").open("a") as file:
                file.write(f"port = {_new_port()}\n")
            self._name_database(account, bin_folder, fresh)
            if "fsync" not in self.options:
                run_as(account, [initdb, "--sync-only", "-D", str(fresh)])
            if self.data_dir.is_symlink():  # what it led to is gone
                self.data_dir.unlink()
            elif self.data_dir.exists():
                self.data_dir.rmdir()
            fresh.rename(place)
            if place != self.data_dir:
                self.data_dir.symlink_to(place)
                log.info("the embedded database is in %s: its user cannot enter %s", place, self.data_dir.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def _name_database(self, account: Account, bin_folder: Path, data_dir: Path) -> None:
        """Rename the empty database that initdb creates; creating another one would take as long as initdb itself.

        In single-user mode: no server, no socket, no race with early clients.
        """
        command = [str(bin_folder / "postgres"), "--single", "-F", "-D", str(data_dir), "template1"]
        run_as(account, command, given=f'ALTER DATABASE postgres RENAME TO "{self.database}"\n')

    def _spawn(self, account: Account, bin_folder: Path, folder: Path) -> int:
        """Start the server as a daemon, in its own session and adopted by init; returns its pid."""
        place = self._place
        command = [str(bin_folder / "postgres"), "-D", str(place), "-k", str(folder)]
        for name, value in self.options.items():
            command += ["-c", f"{name}={value}"]
        # There is no server, so an existing pid file was left by a dead one. Its pid may have been reused by another
        # process, which PostgreSQL would mistake for a live server. PostgreSQL ignores the pid of its "grandparent"; it
        # checks itself, through the shared memory named in the file, that no process of the dead server is alive.
        stale = read_postmaster(self.data_dir)
        environment = {"PG_GRANDPARENT_PID": str(stale.pid)} if stale is not None else {}
        detached = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'
        answer = run_as(
            account,
            ["/bin/sh", "-c", detached, "sh", str(place / self.log_file.name), *command],
            environment=environment,
            new_session=True,
        )
        return int(answer)

    def _keep(self, pid: int) -> None:
        """Have a process end the server when all its users were killed; it is nobody's child, as the server itself."""
        detached = '"$@" </dev/null >/dev/null 2>&1 &'
        keeper = [sys.executable, "-I", "-S", str(_KEEPER), str(self.data_dir), str(pid)]
        run_as(Account.of_this_process(), ["/bin/sh", "-c", detached, "sh", *keeper], new_session=True)

    def _wait_until_ready(self, pid: int) -> Postmaster:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            found = read_postmaster(self.data_dir)
            # an old file may contain the same pid: containers reuse pids quickly
            if found is not None and found.pid == pid and ask(found.socket) is ServerAnswer.READY:
                return found
            if not is_alive(pid):
                raise self._failed("did not start")
            self._pause(0.005)
        raise self._failed(f"was not ready after {START_SECONDS:.0f} s")

    def _failed(self, what: str) -> DatabaseError:
        said = last_complaint(tail(self.log_file))
        return DatabaseError(f"The embedded PostgreSQL on {self.data_dir} {what}: {said} Its log is {self.log_file}.")

    def _rotate_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.stat().st_size > LOG_BYTES:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))

    # -- stopping ------------------------------------------------------------------------------

    def _shut_down(self) -> None:
        found = read_postmaster(self.data_dir)
        if found is None or ask(found.socket) is ServerAnswer.NONE:
            return
        if not runs_on(found.pid, folder_id(self.data_dir), self._place):
            log.warning("the embedded PostgreSQL on %s runs in another container, and is left running", self.data_dir)
            return
        # SIGINT is pg_ctl's "fast" mode: roll back open transactions, write a checkpoint, exit. SIGQUIT leaves recovery
        # to the next start.
        for request, patience in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, request)
            if wait_until_gone(self.data_dir, found.pid, patience):
                return
            log.warning("the embedded PostgreSQL (pid %s) did not stop on %s", found.pid, request.name)
        raise self._failed("did not stop")

    def _end_stray(self) -> None:
        """Stop the server whose data directory was renamed or removed: no process would find it any more."""
        server = self._server
        if server is None or not runs_on(server.pid, self._folder, self._place):
            return
        log.warning("ending the PostgreSQL (pid %s) whose folder %s is gone", server.pid, self.data_dir)
        # It uses the old paths of its files, so it cannot shut down cleanly; renamed data is recovered at the next
        # start.
        end_process(server.pid, {signal.SIGQUIT: 10.0, signal.SIGKILL: 5.0})


def _dsn(server: Postmaster, database: str) -> str:
    return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(server.socket_folder))}&port={server.port}"


def _new_port() -> int:
    """The number in the name of a new cluster's socket: four digits that change every tenth of a second.

    If a data directory is removed under a running server, that server notices within a minute, stops and removes
    its socket by name. By then a new cluster may exist in the same place, so its socket name must differ.
    """
    return 1024 + time.time_ns() // 10**8 % 8976


def _open_lock(path: Path) -> IO[Any]:
    # not inherited by child programs; the mode keeps other users out
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)


def _try_lock(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _named_errors(data_dir: Path) -> Iterator[None]:
    """Raise errors of the operating system as a DatabaseError that names the folder."""
    try:
        yield
    except PermissionError as error:
        raise DatabaseError(
            f"No permission for the embedded database in {data_dir} ({error.filename or error.strerror}). "
            "Run as the user that owns the folder, or choose another --home."
        ) from error
    except OSError as error:
        raise DatabaseError(f"The embedded database in {data_dir} cannot be used: {error}.") from error
    except subprocess.CalledProcessError as error:
        said: Sequence[str] = (error.stderr or error.stdout or "").strip().splitlines()
        reason = " ".join(line.strip() for line in said[-3:]) or f"exit status {error.returncode}"
        raise DatabaseError(
            f"The embedded database in {data_dir} cannot be created: {reason}. Check disk space and permissions there."
        ) from error
