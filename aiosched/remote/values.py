"""Large XComs in remote storage: written and read by the process that runs the attempt.

A file here never changes: each try writes its values under new names. So what was read can be kept, which makes the
many instances of a mapped task on one worker read their list once. A store that fails is asked again for a while;
nothing here runs on an event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.core.values.messages import StoredXCom, XComPlace, XComValue
from aiosched.core.values.typed_json import json_length
from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder

if TYPE_CHECKING:
    from aiosched.config import XComSettings

SETTING: Final = "xcom.remote"
LIMIT: Final = 300.0  # seconds that one call may take
PAUSES: Final = (0.5, 1.0, 2.0, 4.0)  # seconds between the tries to read or write a value
KEPT: Final = 64 * 2**20  # characters of values that were read
_PREVIEW: Final = 1_000  # characters of a value that are kept in the database


class XComRemote(msgspec.Struct, frozen=True, kw_only=True):
    """Where large XComs go, as settings say; sizes in bytes."""

    url: str
    options: str | None
    remote_from: int
    most: int


class XComStore:
    """Reads and writes values in one folder. It is opened on first use: most attempts have no large values."""

    def __init__(self, remote: XComRemote, *, pause: Callable[[float], None] = time.sleep) -> None:
        self.remote = remote
        self._pause = pause
        self._folder: RemoteFolder | None = None
        self._read: dict[str, str] = {}  # by path, least recently used first
        self._lock = threading.Lock()

    @property
    def folder(self) -> RemoteFolder:
        """The folder. Raises ConfigError, for example if a package is missing."""
        if self._folder is None:
            self._folder = RemoteFolder(self.remote.url, self.remote.options, setting=SETTING, limit=LIMIT)
        return self._folder

    def write(self, path: str, value: XComValue) -> StoredXCom:
        """Write a value, and return what is stored in the database. Raises RemoteStorageError."""
        data = value.value.encode()
        self._with_patience(lambda: self.folder.write(path, data), f"The XCom {value.key!r} cannot be written")
        return StoredXCom(
            key=value.key,
            path=path,
            size=len(data),
            length=json_length(value.value),
            value=msgspec.json.encode(value.value[:_PREVIEW]).decode(),
        )

    def read(self, place: XComPlace) -> str:
        """The JSON of a value. Raises RemoteStorageError."""
        with self._lock:
            if (known := self._read.pop(place.path, None)) is not None:
                self._read[place.path] = known
                return known
        text = self._fetch(place)
        if len(text) <= KEPT:
            with self._lock:
                self._read[place.path] = text
                while sum(map(len, self._read.values())) > KEPT:
                    del self._read[next(iter(self._read))]
        return text

    def _fetch(self, place: XComPlace) -> str:
        try:
            data: bytes = self._with_patience(
                lambda: self.folder.read(place.path, 0, place.size + 1), "An XCom cannot be read"
            )
        except FileNotFoundError:
            raise RemoteStorageError(
                f"The XCom {self.folder.url_of(place.path)} does not exist. If {SETTING} was changed, copy the files "
                "to the new place; else clear the task that pushed it, so that it runs again."
            ) from None
        if len(data) != place.size:
            more = "more than " if len(data) > place.size else ""
            raise RemoteStorageError(
                f"The XCom {self.folder.url_of(place.path)} has {more}{min(len(data), place.size):,} bytes instead of "
                f"{place.size:,}: it was changed. Clear the task that pushed it, so that it runs again."
            )
        return data.decode()

    def _with_patience(self, work: Callable[[], Any], what: str) -> Any:
        began = time.monotonic()
        for pause in (*PAUSES, None):
            try:
                return work()
            except RemoteStorageError as error:
                if pause is None or time.monotonic() - began > LIMIT / 2:
                    raise RemoteStorageError(f"{what}: {error}") from error
                self._pause(pause)
        raise AssertionError("the last try returns or raises")


def remote_xcoms(settings: XComSettings) -> XComRemote | None:
    """Where large XComs go according to the settings; None if all are in the database."""
    if settings.remote is None:
        return None
    return XComRemote(
        url=settings.remote,
        options=settings.remote_options,
        remote_from=settings.remote_from,
        most=settings.max_remote_bytes,
    )
