"""Variables and connections that a DAG file reads while it is imported: its child asks, its parser answers.

A child has neither the address of the database nor the keys. It asks the parser over a Unix socket, which answers this
user, and the one as whom files are imported, and only if its file reads something. Every look-up is one connection: a
line of JSON asks, and what comes back until the end of the connection is the answer. A question that the database
cannot answer in time is an error in the file, but not one of the file: `FileLookups.unanswered` says that the outcome
is void.

Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 27.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.masking import secrets
from aiosched.core.values.service_errors import error_of_kind, kind_of
from aiosched.errors import AioschedError, ConfigError, DatabaseError, DatabaseUnreachable, NotFound, Refused
from aiosched.other_user import OtherUser
from aiosched.scratch import scratch_folder

if TYPE_CHECKING:
    from aiosched.backends.values import Value

log: Final = logging.getLogger(__name__)

LookUp = Callable[[str, str, str], "Awaitable[Value]"]  # kind and name, and the name of the file that asks

PATIENCE: Final = 5.0  # seconds in which a look-up is answered
_AGAIN: Final = 0.2  # seconds until the database is asked again
_SLOWER: Final = 1.0  # seconds that a child waits longer than its parser tries
_MOST_AT_ONCE: Final = 64  # connections; a file that opens more is not answered
_LONGEST_PATH: Final = 95  # characters of a folder; the path of a socket in it may have 103
_CHUNK: Final = 65_536
_PEER: Final = struct.Struct("3i")  # pid, uid, gid of who connects


class ValuesAddress(NamedTuple):
    """Where a child asks, the seconds that it waits for an answer, and the word by which it is known there."""

    path: str
    patience: float
    word: str = ""


class ValueQuestion(msgspec.Struct, frozen=True):
    """Kind ("variable" or "connection") and name, asked by who has this word."""

    kind: str
    name: str
    word: str = ""


class ValueAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value, or why there is none: `error_kind` is a name of service_errors.py, "" for no answer in time."""

    value: Any = None
    backend: str | None = None  # which has it; None: the database
    database: bool = True  # whether there is one
    is_secret: bool = False  # whatever its name is
    error: str | None = None
    error_kind: str = ""


# ---- in the child ----


class FileLookups:
    """What one file has looked up so far. Call it with kind and name; it asks for each name once.

    Raises Refused if no key fits, and DatabaseError if there is no answer in time.
    """

    def __init__(self, address: ValuesAddress | None) -> None:
        self._address = address
        self._known: dict[ValueQuestion, ValueAnswer] = {}
        self.unanswered: bool = False

    @property
    def any(self) -> bool:
        """Whether the file has looked up something that is not in the environment."""
        return bool(self._known) or self.unanswered

    def __call__(self, kind: str, name: str) -> Mapping[str, Any]:
        question = ValueQuestion(kind, name, "" if self._address is None else self._address.word)
        answer = self._known.get(question)
        if answer is None:
            answer = self._known[question] = self._answer(question)
        if answer.error is not None:
            raise error_of_kind(answer.error, answer.error_kind)
        facts = ("value", "backend", "database", "is_secret")
        return {name: getattr(answer, name) for name in facts}

    def _answer(self, question: ValueQuestion) -> ValueAnswer:
        what = f"The {question.kind} {question.name!r} cannot be read now"
        if self._address is None:
            return ValueAnswer(database=False)
        began = time.monotonic()
        try:
            answer = msgspec.json.decode(_exchange(self._address, question), type=ValueAnswer)
        except (OSError, msgspec.DecodeError) as error:
            self.unanswered = True
            raise DatabaseError(f"{what}: the process that parses files does not answer ({error}).") from None
        except BaseException:  # the time of the import is over: the fault of the file, or of this look-up
            self.unanswered |= time.monotonic() - began > _SLOWER
            raise
        if answer.error is not None and not answer.error_kind:
            self.unanswered = True
            raise DatabaseError(f"{what}: {answer.error}")
        return answer


def _exchange(address: ValuesAddress, question: ValueQuestion) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(address.patience + _SLOWER)
        line.connect(address.path)
        line.sendall(msgspec.json.encode(question) + b"\n", socket.MSG_NOSIGNAL)  # SIGPIPE would end this process
        return b"".join(iter(lambda: line.recv(_CHUNK), b""))


# ---- in the process that parses ----


class ValueServer:
    """Answers the children of one pool on the running event loop, by `look_up`.

    What it gives away that is secret is masked from then on, in this process as well: in what the file printed, too.
    """

    def __init__(self, look_up: LookUp, *, patience: float | None = None, user: OtherUser | None = None) -> None:
        self._look_up, self._user = look_up, user
        self._patience = PATIENCE if patience is None else patience
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._open = 0
        self._files: dict[str, str] = {}  # by word: a file cannot ask for another one

    @contextlib.asynccontextmanager
    async def answering(self, file: str) -> AsyncIterator[ValuesAddress]:
        """Where the child asks that imports this file now."""
        word = token_hex(16)
        self._files[word] = file
        try:
            yield (await self._address())._replace(word=word)
        finally:
            del self._files[word]

    async def _address(self) -> ValuesAddress:
        """Starts the server with the first call. If that fails, nobody answers there; it is logged."""
        async with self._starting:
            if self._folder is None:
                self._folder = await asyncio.to_thread(_new_folder)
                try:
                    self._server = await asyncio.start_unix_server(self._serve, self._path)
                    if self._user is not None:
                        self._admit()
                except OSError as error:
                    log.warning("DAG files cannot read variables and connections: %s: %s", self._path, error)
            return ValuesAddress(self._path, self._patience)

    async def close(self) -> None:
        """Stop answering, and remove the socket."""
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.cleanup)

    @property
    def _path(self) -> str:
        assert self._folder is not None
        return f"{self._folder.name}/values"

    def _admit(self) -> None:
        """Let others come to the socket; whom it answers, `_may_ask` says."""
        assert self._folder is not None
        Path(self._folder.name).chmod(0o711)
        Path(self._path).chmod(0o666)

    def _may_ask(self, writer: asyncio.StreamWriter) -> bool:
        if self._user is None:  # nobody else can enter the folder
            return True
        sock: socket.socket = writer.get_extra_info("socket")
        _, uid, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        return uid in (os.geteuid(), self._user.uid)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST_AT_ONCE and self._may_ask(writer):
                async with asyncio.timeout(self._patience):
                    question = msgspec.json.decode(await reader.readline(), type=ValueQuestion)
                writer.write(msgspec.json.encode(await self._answer(question)))
                await writer.drain()
        except (OSError, ValueError, TimeoutError):  # a file wrote to the socket by itself, or has ended
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, question: ValueQuestion) -> ValueAnswer:
        reason, file = "the database does not answer.", self._files.get(question.word)
        if file is None:
            return ValueAnswer(error="nobody has asked for this file to be imported.")
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        return self._found(question, await self._look_up(question.kind, question.name, file))
                    except NotFound:  # it belongs to another team
                        return ValueAnswer()
                    except (Refused, ConfigError) as error:  # no key fits
                        return ValueAnswer(error=str(error), error_kind=kind_of(error) or Refused.__name__)
                    except NoDatabase:
                        return ValueAnswer(database=False)
                    except Exception as error:
                        reason = str(error) if isinstance(error, AioschedError) else f"{type(error).__name__}: {error}"
                    await asyncio.sleep(_AGAIN)
        except TimeoutError:
            return ValueAnswer(error=reason)

    def _found(self, question: ValueQuestion, found: Value) -> ValueAnswer:
        if (found.backend is not None or found.is_secret) and isinstance(found.value, str):
            secrets.register(found.value)
        hide(question.kind, question.name, found.value)
        return ValueAnswer(found.value, found.backend, is_secret=found.is_secret)


class NoDatabase(DatabaseUnreachable):
    """None is set up here: only the environment has values."""


def hide(kind: str, name: str, value: Any) -> None:
    """Register the secrets of a variable or connection with this process's Redactor."""
    if kind == "variable" and value is not None:
        secrets.register_named(name, value)
    elif value is not None:
        with contextlib.suppress(ConfigError):
            ConnectionValue.from_fields(name, value).hide()


def _new_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process, which is removed also if the process is killed: by the next scheduler here."""
    from aiosched import leftovers

    folder = scratch_folder(leftovers.new_mark())
    if len(folder.name) <= _LONGEST_PATH:
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix="aiosched-", dir="/tmp", ignore_cleanup_errors=True)
