"""The scheduler's side of one worker process: its socket and its attempts."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, cast

import msgspec

from aiosched.bundles.places import NEWEST, CodeKey
from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo, XComPairs
from aiosched.executors.local.affinity import FileKey, code_file
from aiosched.executors.worker.claim_pipe import ClaimPipe
from aiosched.executors.worker.loop_heartbeat import LoopHeartbeat
from aiosched.executors.worker.protocol import (
    Cancel,
    Ended,
    FieldsRendered,
    Fired,
    FrameReader,
    FromWorker,
    Ready,
    RunAttempts,
    ServiceCall,
    ServiceResult,
    Unwatch,
    Warm,
    Warmed,
    Watch,
    Withdraw,
    XComCall,
    XComResult,
    frame,
)

_MOST_STOPPED: Final = 1_000
_MOST_AT_ONCE: Final = 100  # messages that are handled before others have their turn on the loop


class LinkListener(Protocol):
    """Receives a worker's messages. All calls are made on the event loop."""

    def worker_ready(self, link: WorkerLink) -> None: ...
    def attempts_ended(self, link: WorkerLink, ended: Ended) -> None: ...
    def fields_rendered(self, rendered: FieldsRendered) -> None: ...
    def file_warmed(self, link: WorkerLink, run: RunInfo, warmed: Warmed) -> None: ...
    def trigger_fired(self, link: WorkerLink, fired: Fired) -> None: ...
    def worker_asks(self, link: WorkerLink, call: XComCall | ServiceCall | Withdraw) -> None: ...
    def attempt_unsendable(self, link: WorkerLink, attempt: Attempt, reason: str) -> None: ...
    def link_lost(self, link: WorkerLink) -> None: ...


class WorkerLink(asyncio.Protocol):
    """The connection to one worker. Messages of one loop iteration are sent in one write."""

    def __init__(
        self,
        number: int,
        *,
        is_async: bool,
        listener: LinkListener,
        watches: bool = False,
        user: str | None = None,
        team: str | None = None,
    ) -> None:
        self.number: int = number
        self.is_async: bool = is_async
        self.team = team  # of whose DAGs all its attempts are
        self.user = user  # as whom it runs, if its only attempt names one
        self.watches = watches  # the worker in which triggers wait
        self.pid: int | None = None
        self.ready: bool = False  # has sent a message: its attempts have begun
        self.retiring: bool = user is not None  # gets no more attempts
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # done once the socket is closed
        self.judged = False  # its end has been handled
        self.killed = False  # it was sent SIGKILL
        self.why_killed: str | None = None  # if its attempts are to blame
        self.memory_before = 0  # bytes, when its first attempt began
        self.blameless = False  # its process died with the forkserver, not because of its attempts
        self.idle_since: float = 0.0
        self.attempts: dict[AttemptKey, Attempt] = {}  # sent but not yet reported; of plain attempts the first one runs
        self.head_since: float = 0.0  # when the first one began, or was sent
        self.claim_pipe: ClaimPipe | None = None  # for plain attempts: which have not begun
        self.sign: LoopHeartbeat | None = None  # for coroutines: the heartbeat of their loop
        self.code: CodeKey = NEWEST  # for coroutines: whose modules it has
        self.files: set[FileKey] = set()  # of the attempts sent to it
        self.due: dict[FileKey, float] = {}  # when a file that it has imported for a run is needed, if it was not yet
        self.warming: dict[int, RunInfo] = {}  # what it imports for runs that are expected, by number
        self.triggers: dict[int, Attempt] = {}  # waiting triggers, by number
        self.exit: str | None = None  # how its process ended, once known
        self.left: str | None = None  # what the process left behind
        self.output = b""  # what it wrote last and is in no log
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._socket: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: list[Attempt] = []  # to be sent at the end of this loop iteration
        self._stopped_triggers = deque[AttemptKey](maxlen=_MOST_STOPPED)  # the last ones
        self._seen_in_line: tuple[AttemptKey | None, float] = (None, 0.0)  # a waiting attempt, and since when
        self._warms = 0  # how often `warm` was called
        self._cancelled: list[AttemptKey] = []
        self._unsent: list[Watch | Unwatch | Warm] = []
        self._closing = False
        self._holds: set[str] = set()  # why nothing is read from the socket just now

    async def connect(self, sock: socket.socket) -> None:
        """Take over our end of the worker's socket. Must not be cancelled, or the socket would have two owners."""
        self._socket = sock
        try:
            await self._loop.create_unix_connection(lambda: self, sock=sock)
        except OSError as error:
            sock.close()
            self.connection_lost(error)

    def run(self, attempt: Attempt) -> None:
        """Send `attempt` to the worker, to run after its other attempts."""
        if not self.attempts:
            self.head_since = self._loop.time()
        self.attempts[attempt.key] = attempt
        file = code_file(attempt.run)
        self.files.add(file)
        self.due.pop(file, None)
        if not self._waiting and self._transport is not None:
            self._loop.call_soon(self._flush)
        self._waiting.append(attempt)

    def take_back(self) -> list[Attempt]:
        """Take back the plain attempts that have not begun, in order: the worker will not run them."""
        if self.claim_pipe is None:
            return []
        count = len(self._waiting) + self.claim_pipe.take_back()
        self._waiting.clear()
        taken = list(self.attempts.values())[-count:] if count else []
        for attempt in taken:
            del self.attempts[attempt.key]
        return taken

    def runs_for(self, run: int) -> bool:
        """Whether one of its attempts or triggers is of this run, so that it may ask in its name.

        What a message says of its sender counts for nothing: code of authors runs in the worker.
        """
        for key in self.attempts:
            if key.run == run:
                return True
        triggers = (trigger.key for trigger in self.triggers.values())
        return any(key.run == run for key in itertools.chain(triggers, self._stopped_triggers))

    def waited(self, now: float) -> float:
        """How long an attempt has waited in the line, as observed by earlier calls."""
        line = list(self.attempts)[1:] if self.claim_pipe is not None else []
        key, since = self._seen_in_line
        if key in line:
            return now - since
        self._seen_in_line = (line[-1] if line else None, now)
        return 0.0

    def cancel(self, key: AttemptKey) -> None:
        """Ask the worker to cancel an `async def` attempt."""
        self._cancelled.append(key)
        self._flush()

    def warm(self, run: RunInfo) -> None:
        """Have the worker import the file of a run that is expected."""
        self._warms += 1
        self.warming[self._warms] = run
        self._send_soon(Warm(self._warms, run))

    def watch(self, number: int, attempt: Attempt) -> None:
        """Start a trigger in the worker."""
        self.triggers[number] = attempt
        self._send_soon(Watch(number, attempt))

    def unwatch(self, number: int, *, kill: bool) -> bool:
        """Ask the worker to stop a trigger, whose `on_kill` may still ask for something; whether it had it."""
        if (attempt := self.triggers.pop(number, None)) is None:
            return False
        self._stopped_triggers.append(attempt.key)
        self._send_soon(Unwatch(number, kill))
        return True

    def answer(self, number: int, pairs: Sequence[XComPairs], error: str | None = None) -> None:
        """Answer the worker's call `number`."""
        try:
            data = frame(XComResult(number, list(pairs), error))
        except Exception as problem:
            data = frame(XComResult(number, [], f"the answer {_unsendable(problem)}"))
        self._write(data)

    def reply(self, reply: ServiceResult) -> None:
        """Answer a call of a service."""
        try:
            data = frame(reply)
        except Exception as problem:
            data = frame(ServiceResult(reply.number, "", f"the answer {_unsendable(problem)}"))
        self._write(data)

    def close(self) -> None:
        """Close the socket: the worker ends as soon as it is idle."""
        self._closing = True
        if self.claim_pipe is not None:
            self.claim_pipe.close()
        if self.sign is not None:
            self.sign.close()
            self.sign = None
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's classes are not subclasses
        if self._closing:
            transport.close()
        self._flush()

    def hold(self, why: str, *, on: bool) -> None:
        """Read nothing more from the worker, which then waits in its writes, until no reason for that is left."""
        before = bool(self._holds)
        (self._holds.add if on else self._holds.discard)(why)
        if self._transport is None or self._transport.is_closing() or before == bool(self._holds):
            return
        if self._holds:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Handle messages, some at a time: code of authors may send as many as it likes."""
        try:
            messages = self._reader.feed(data, _MOST_AT_ONCE)
        except msgspec.MsgspecError:
            self.close()  # a task wrote into the worker's socket, so its messages can no longer be read
            return
        for message in messages:
            self._take(message)  # type: ignore[arg-type]
        are_left = len(messages) == _MOST_AT_ONCE
        self.hold("messages are left", on=are_left)
        if are_left:
            self._loop.call_soon(self.data_received, b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._socket is not None:
            # The transport closes the descriptor. The socket object must not do so again when it is collected (uvloop,
            # when the worker dies within the first turn): it may belong to another file by then.
            self._loop.call_soon(self._socket.detach)
        if not self.lost.done():
            self.lost.set_result(None)
        self._listener.link_lost(self)

    def _take(self, message: FromWorker) -> None:
        match message:
            case Ended():
                self._listener.attempts_ended(self, message)
            case XComCall() | ServiceCall() | Withdraw():
                self._listener.worker_asks(self, message)
            case FieldsRendered():
                if message.key in self.attempts:
                    self._listener.fields_rendered(message)
            case Warmed():
                if (run := self.warming.pop(message.number, None)) is not None:
                    if message.error is None:
                        self.files.add(code_file(run))
                        self.due[code_file(run)] = (
                            self._loop.time() + (run.run_after - datetime.now(UTC)).total_seconds()
                        )
                    self._listener.file_warmed(self, run, message)
            case Fired():
                self._listener.trigger_fired(self, message)
            case Ready():
                if not self.ready:
                    self.ready = True
                    self._listener.worker_ready(self)

    def _flush(self) -> None:
        if self._transport is None:
            return
        if self._waiting:
            attempts, self._waiting = self._waiting, []
            self._send_attempts(attempts)
        while self._cancelled:
            self._write(frame(Cancel(self._cancelled.pop())))
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self._send_soon(message)

    def _send_attempts(self, attempts: list[Attempt]) -> None:
        """Send attempts as one message, or each by itself if that cannot be made; one that cannot be sent ends."""
        try:
            data = frame(RunAttempts(attempts, 0 if self.claim_pipe is None else self.claim_pipe.next_ticket))
        except Exception as error:
            if len(attempts) == 1:
                self._listener.attempt_unsendable(self, attempts[0], _unsendable(error))
                return
            for attempt in attempts:
                self._send_attempts([attempt])
            return
        if self.claim_pipe is not None:
            self.claim_pipe.issue(len(attempts))
        self._write(data)

    def _send_soon(self, message: Watch | Unwatch | Warm) -> None:
        if self._transport is None:
            self._unsent.append(message)
            return
        try:
            data = frame(message)
        except Exception as error:
            if isinstance(message, Watch | Unwatch):
                self._listener.attempt_unsendable(self, self.triggers[message.number], _unsendable(error))
            return
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _unsendable(error: Exception) -> str:
    return f"cannot be sent to a worker process: {type(error).__name__}: {error}"
