"""The messages between scheduler, forkserver and workers, and how they are framed.

A frame is four bytes of length (big-endian) and one msgpack message. One write or read can contain many frames.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.bundles.places import CodePlaces
from aiosched.core.values.messages import Attempt, AttemptKey, Report, RunInfo, XComPairs, XComRef
from aiosched.core.values.service_errors import error_of_kind
from aiosched.errors import AioschedError, ExecutorError
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.log_opening import RemoteLogFiles
from aiosched.remote.values import XComRemote, XComStore

LARGEST_FRAME: Final = 256 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of workers. Sizes in bytes, times in seconds; paths as text."""

    places: CodePlaces
    logs_folder: str | None
    max_xcom_bytes: int
    max_log_bytes: int
    max_field_length: int
    log_level: str
    import_timeout: float
    defaults: AuthoringDefaults
    max_attempts: int  # a worker is replaced after this many attempts
    max_growth_bytes: int  # ... or after its memory grew by this much
    uploads_logs: bool = False  # the scheduler's process writes the logs to remote storage
    xcoms: XComRemote | None = None  # where large XComs go


def environment_of(config: WorkerConfig, log_files: RemoteLogFiles | None = None) -> AttemptEnvironment:
    """What attempts in a worker share."""
    return AttemptEnvironment(
        logs_folder=Path(config.logs_folder) if config.logs_folder else None,
        max_xcom_bytes=config.max_xcom_bytes,
        max_log_bytes=config.max_log_bytes,
        max_field_length=config.max_field_length,
        uploads_logs=config.uploads_logs,
        log_files=log_files,
        xcoms=XComStore(config.xcoms) if config.xcoms else None,
    )


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages."""


# scheduler -> worker


class RunAttempts(Message, frozen=True):
    """Run these attempts; plain ones one after the other, each with the ticket of its number (claim_pipe.py)."""

    attempts: list[Attempt]
    first: int = 0  # the number of the first attempt; the others follow


class Cancel(Message, frozen=True):
    """Cancel a running `async def` attempt. Plain ones get SIGTERM."""

    key: AttemptKey


class Watch(Message, frozen=True):
    """Start the trigger of an attempt, under a unique number."""

    number: int
    attempt: Attempt


class Unwatch(Message, frozen=True):
    """Stop a trigger. `kill`: its task was ended, so its `on_kill` is called."""

    number: int
    kill: bool


class Warm(Message, frozen=True):
    """Import the DAG file of a run that is expected soon, if nothing else is to be done; under a unique number."""

    number: int
    run: RunInfo


class XComResult(Message, frozen=True):
    """The answer to the `Ask` of the same number; `error` instead of pairs if it failed."""

    number: int
    pairs: list[XComPairs]
    error: str | None = None


class ServiceResult(Message, frozen=True):
    """The answer to the `Call` of the same number: a JSON text, or an `error` of a `kind` (see `error_of`)."""

    number: int
    answer: str
    error: str | None = None
    kind: str = ""


# worker -> scheduler


class Ready(Message, frozen=True):
    """The worker has started."""


class Ended(Message, frozen=True):
    """These attempts have ended. With `retire` the worker asks to be replaced, for the given reason."""

    reports: list[Report]
    retire: str | None = None
    took: float = 0.0  # seconds, from a worker for plain functions
    imported: float = 0.0  # of those, the time of importing the DAG file


class Warmed(Message, frozen=True):
    """The `Warm` of this number has ended. With `error` the file is not imported; `retire` as in `Ended`."""

    number: int
    took: float  # seconds
    error: str | None = None
    retire: str | None = None


class FieldsRendered(Message, frozen=True):
    """The template fields of an attempt that runs, as a JSON object."""

    key: AttemptKey
    fields: str


class Fired(Message, frozen=True):
    """A trigger has fired or failed."""

    number: int
    report: Report


class XComCall(Message, frozen=True):
    """A running task requests XComs of its run."""

    number: int
    run: int
    refs: list[XComRef]


class ServiceCall(Message, frozen=True):
    """A running task calls a service of the scheduler by name; `args` is JSON."""

    number: int
    run: int
    name: str
    args: str


class Withdraw(Message, frozen=True):
    """Withdraw the call of this number: its attempt was ended, so no caller waits for the answer."""

    number: int


# scheduler -> forkserver


class Setup(Message, frozen=True):
    """The first message: the configuration of all workers, and the scheduler's sys.path."""

    config: WorkerConfig
    path: list[str]


class Fork(Message, frozen=True):
    """Start a worker; the message carries its socket, a second descriptor, and its socket for logs if it `has_logs`.

    Plain workers draw tickets from the latter (claim_pipe.py), for async workers it is the page of their loop's
    heartbeat (loop_heartbeat.py).
    """

    worker: int
    is_async: bool
    has_logs: bool = False  # it must ask for open logs (log_opening.py)


class Signal(Message, frozen=True):
    """Send a signal to a worker's whole process group, if the worker is still there."""

    worker: int
    signal: int


# forkserver -> scheduler


class Forked(Message, frozen=True):
    """The worker runs as process `pid`, the leader of its own session and process group."""

    worker: int
    pid: int


class Exited(Message, frozen=True):
    """The worker's process and all its child processes have ended.

    `code` as in subprocess: negative is a signal. None if it could not be started, for the given `reason`. `left`
    describes the processes that it left behind. `output`: the last part of what was written to descriptors 1 and 2 of a
    worker for plain functions and is in no log yet, without secrets.
    """

    worker: int
    code: int | None
    reason: str | None = None
    left: str | None = None
    output: bytes = b""


ToWorker = RunAttempts | Cancel | Watch | Unwatch | Warm | XComResult | ServiceResult
FromWorker = Ready | Ended | Warmed | FieldsRendered | Fired | XComCall | ServiceCall | Withdraw
ToForkserver = Setup | Fork | Signal
FromForkserver = Forked | Exited
AnyMessage = ToWorker | FromWorker | ToForkserver | FromForkserver

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[AnyMessage]] = msgspec.msgpack.Decoder(AnyMessage)

M = TypeVar("M")


def frame(message: Message) -> bytes:
    """The bytes of one message."""
    buffer = bytearray(4)
    _encoder.encode_into(message, buffer, 4)
    size = len(buffer) - 4
    if size > LARGEST_FRAME:
        raise ExecutorError(f"A {type(message).__name__} message of {size:,} bytes exceeds the frame size.")
    _LENGTH.pack_into(buffer, 0, size)
    return bytes(buffer)


def error_of(reply: ServiceResult) -> AioschedError | None:
    """The error to raise in the calling task; None for a successful answer."""
    return None if reply.error is None else error_of_kind(reply.error, reply.kind)


class FramesOf(Generic[M]):
    """Converts data read from a socket into messages, regardless of how it is split; of at most so many bytes each."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M], largest: int = LARGEST_FRAME) -> None:
        self._buffer, self._decoder, self._largest = bytearray(), decoder, largest

    def feed(self, data: bytes, most: int | None = None) -> Sequence[M]:
        """The messages that `data` completes, in order. Raises msgspec.ValidationError for anything else.

        Also for a message that is announced as larger than any that is sent, before it is read. With `most` at most so
        many: the others come with the next call, which may bring no data.
        """
        buffer = self._buffer
        buffer += data
        start, end = 0, len(buffer)
        view = memoryview(buffer)
        messages: list[M] = []
        try:
            while end - start >= 4 and len(messages) != most:
                size = _LENGTH.unpack_from(view, start)[0]
                if size > self._largest:
                    raise msgspec.ValidationError(f"a message of {size:,} bytes exceeds the frame size")
                stop = start + 4 + size
                if stop > end:
                    break
                messages.append(self._decoder.decode(view[start + 4 : stop]))
                start = stop
        finally:
            view.release()
        del buffer[:start]
        return messages


class FrameReader(FramesOf[AnyMessage]):
    """That of the messages between scheduler, forkserver and workers."""

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        super().__init__(_decoder, largest)
